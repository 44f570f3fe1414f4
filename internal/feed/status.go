package feed

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/tidegate/tidegate/pkg/api"
	"github.com/tidegate/tidegate/pkg/events"
)

// progress tracks the lanes of a member and the batches under way. It is safe for concurrent
// use.
type progress struct {
	mu      sync.Mutex
	mine    map[int]bool      // lanes that are the member's; guarded by mu
	at      map[int]time.Time // when the oldest record of the batch under way came into the feed, by lane; guarded by mu
	failing map[int]bool      // lanes with a batch that failed and is tried again; guarded by mu
}

func newProgress() *progress {
	return &progress{at: map[int]time.Time{}, failing: map[int]bool{}}
}

// owns says which lanes are the member's.
func (p *progress) owns(mine map[int]bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.mine = mine
}

// owned reports whether a lane is the member's.
func (p *progress) owned(lane int) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.mine[lane]
}

// begins says that a batch of a lane is under way.
func (p *progress) begins(lane int, since time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.at[lane] = since
}

// fails says that a lane's batch is tried again.
func (p *progress) fails(lane int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.failing[lane] = true
}

// ends says that a lane's batch is under way no more.
func (p *progress) ends(lane int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.at, lane)
	delete(p.failing, lane)
}

// look is how many lanes there are and fail, and since when the oldest record
// waits; the zero time if no record waits.
func (p *progress) look() (mine map[int]bool, failing int, since time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, at := range p.at {
		if since.IsZero() || at.Before(since) {
			since = at
		}
	}
	return p.mine, len(p.failing), since
}

// Status returns the member's lanes, lag and backlog. It leaves out values that NATS does not report, with
// a warning.
func (g *Group) Status(ctx context.Context) api.ServiceStatus {
	mine, failing, _ := g.progress.look()
	lanes, lag := int64(len(mine)), g.lag().Seconds()
	s := api.ServiceStatus{Lanes: &lanes, LagSeconds: &lag}
	waiting, err := g.waiting(ctx, mine)
	if err == nil {
		s.Waiting = &waiting
	}
	dead, errDead := g.dead.Count(ctx, g.cfg.Service)
	if errDead == nil {
		s.DeadLetters = &dead
	}
	switch err := errors.Join(err, errDead); {
	case failing > 0:
		s.Warning = fmt.Sprintf("lanes that fail and wait: %d, see the log", failing)
	case err != nil:
		s.Warning = "NATS does not tell: " + strings.ReplaceAll(err.Error(), "\n", "; ")
	}
	return s
}

// lag is how long the oldest record under way has been in the feed.
func (g *Group) lag() time.Duration {
	_, _, since := g.progress.look()
	if since.IsZero() {
		return 0
	}
	return max(0, g.cfg.Now().Sub(since))
}

// waiting is how many records of the lanes are not acknowledged.
func (g *Group) waiting(ctx context.Context, mine map[int]bool) (n int64, err error) {
	feed, err := g.cfg.JetStream.Stream(ctx, events.StreamName)
	if err != nil {
		return 0, fmt.Errorf("look at the feed: %w", err)
	}
	names := make(map[string]bool, len(mine))
	for lane := range mine {
		names[consumerName(g.cfg.Service, lane)] = true
	}
	list := feed.ListConsumers(ctx)
	for c := range list.Info() {
		if names[c.Name] {
			n += int64(c.NumPending) + int64(c.NumAckPending) //nolint:gosec // a count
		}
	}
	if err := list.Err(); err != nil {
		return 0, fmt.Errorf("list the lanes' consumers: %w", err)
	}
	return n, nil
}

// Count is how many dead letters a service has.
func (d *DeadLetters) Count(ctx context.Context, service string) (int64, error) {
	stream, err := d.js.Stream(ctx, deadStream)
	if err != nil {
		return 0, fmt.Errorf("open the dead letters: %w", err)
	}
	subject := events.DeadLetters(service)
	info, err := stream.Info(ctx, jetstream.WithSubjectFilter(subject))
	if err != nil {
		return 0, fmt.Errorf("count the dead letters: %w", err)
	}
	return int64(info.State.Subjects[subject]), nil //nolint:gosec // a count
}
