package loadgen

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/sourcegraph/conc/pool"

	"github.com/tidegate/tidegate/pkg/api"
	tidegate "github.com/tidegate/tidegate/pkg/client"
)

// Target is the system under load, with the endpoints to observe it.
type Target struct {
	// Clients have separate connections and take turns. It must not be empty.
	Clients  []*tidegate.Client
	Resource string
	Entities []string // unique, not empty

	// Metrics lists the URLs of the admission nodes' metrics. If a URL fails, the
	// report states that the cost was not measured.
	Metrics []string
	// ClockSkew is the maximum difference between the clocks of the system's nodes;
	// the check for exceeded limits allows for it.
	ClockSkew time.Duration

	// Now is the clock. It must be monotonic, as time.Now is.
	Now func() time.Time
	// Finished, if not nil, counts completed requests, for a progress display.
	Finished *atomic.Int64
}

// Entities names n entities.
func Entities(prefix string, n int) []string {
	names := make([]string, n)
	for i := range names {
		names[i] = prefix + strconv.Itoa(i+1)
	}
	return names
}

const (
	// adminWorkers is the number of concurrent requests about limits.
	adminWorkers = 32
	// closing bounds the work after an interrupted run.
	closing = 10 * time.Second
)

func (t *Target) check() error {
	switch {
	case len(t.Clients) == 0 || t.Now == nil:
		return errors.New("loadgen: Clients and Now are required")
	case len(t.Entities) == 0:
		return errors.New("at least one entity is needed")
	}
	return errors.Join(api.CheckResource(t.Resource), api.CheckEntity(t.Entities[len(t.Entities)-1]))
}

// SetLimits sets the limits of the target's resource. It returns once all nodes
// apply them. For new limits this takes a second, because a node may use its cached
// limits for so long.
func (t *Target) SetLimits(ctx context.Context, limits []api.Limit) error {
	admin := t.Clients[0].Admin()
	level := api.LimitsTarget{Resource: t.Resource}
	before, err := admin.GetLimits(ctx, level)
	var refused *tidegate.Error
	if err != nil && (!errors.As(err, &refused) || refused.Code != api.CodeNotFound) {
		return fmt.Errorf("read the limits of the resource %s: %w", t.Resource, err)
	}
	after, err := admin.SetLimits(ctx, api.LimitsSetRequest{LimitsTarget: level, Limits: limits})
	if err != nil {
		return fmt.Errorf("set the limits of the resource %s: %w", t.Resource, err)
	}
	if sameLimits(before.Limits, after.Limits) {
		return nil
	}
	return sleep(ctx, propagation)
}

// propagation is the time for which a node may still apply replaced limits.
const propagation = time.Second

// limits reads the limits that apply to each entity.
func (t *Target) limits(ctx context.Context) ([][]api.Limit, error) {
	all := make([][]api.Limit, len(t.Entities))
	p := pool.New().WithMaxGoroutines(adminWorkers).WithContext(ctx).WithCancelOnError().WithFirstError()
	for i, entity := range t.Entities {
		p.Go(func(ctx context.Context) error {
			reply, err := t.Clients[i%len(t.Clients)].Admin().ResolveLimits(ctx, entity, t.Resource)
			if err != nil {
				return fmt.Errorf("read the limits of %s for %s: %w", entity, t.Resource, err)
			}
			all[i] = reply.Limits
			return nil
		})
	}
	if err := p.Wait(); err != nil {
		return nil, err
	}
	return all, nil
}

// sameLimits reports whether the limits are the same, in any order.
func sameLimits(a, b []api.Limit) bool {
	if len(a) != len(b) {
		return false
	}
	for _, l := range a {
		if !slices.Contains(b, l) {
			return false
		}
	}
	return true
}

func sleep(ctx context.Context, d time.Duration) error {
	if d <= 0 {
		return ctx.Err()
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
