package admission

import (
	"context"
	"fmt"
	"time"

	"github.com/nats-io/nats.go/micro"

	"github.com/tidegate/tidegate/pkg/keys"
	"github.com/tidegate/tidegate/services/admission/duty"
)

const (
	// storePatience is the silence of the store after which a node is stuck: longer than a
	// call's timeout and its repetition.
	storePatience = 2 * time.Second
	// recordsPatience is the same for the lease records: in a cluster, a new leader may
	// take as long as this.
	recordsPatience = 10 * time.Second
	// handlerPatience is the same for the goroutine that takes the requests, which never
	// blocks unless the process does: a log that is not read, a machine without memory.
	handlerPatience = time.Second
)

// watchDuty makes the watch over the node's progress. Its signals are the places where a
// node waits for others.
func (s *Service) watchDuty(l *listener) (err error) {
	s.duty, err = duty.New(duty.Config{
		NATS: s.nats, Node: s.nonces.boot, Group: l, Draining: s.draining, Mono: s.clock.Mono, Log: s.log, Metrics: s.registerer,
		Signals: []duty.Signal{
			{Name: "the store does not answer", Stalled: s.contact.Silence, Patience: storePatience, Probe: s.askStore},
			{Name: "the lease records do not answer", Stalled: func(time.Duration) time.Duration { return s.leases.Silence() }, Patience: recordsPatience},
			{Name: "requests are not taken", Stalled: l.stalled, Patience: handlerPatience},
		},
	})
	if err == nil {
		err = s.duty.Listen()
	}
	if err != nil {
		return fmt.Errorf("admission: %w", err)
	}
	return nil
}

// askStore reads a bucket that does not exist: any reply is progress.
func (s *Service) askStore(ctx context.Context) {
	_, _ = s.store.read(ctx, keys.Bucket{Namespace: keys.Registry, Entity: "duty", Resource: "duty"})
}

// watched returns a handler of an endpoint that stalled measures.
func (l *listener) watched(endpoint int, handle micro.HandlerFunc) micro.HandlerFunc {
	busy := &l.busy[endpoint]
	return func(m micro.Request) {
		busy.Store(int64(l.clock.Mono()))
		defer busy.Store(0)
		handle(m)
	}
}

// stalled returns for how long a handler has not returned.
func (l *listener) stalled(now time.Duration) (longest time.Duration) {
	for i := range l.busy {
		if since := l.busy[i].Load(); since > 0 {
			longest = max(longest, now-time.Duration(since))
		}
	}
	return longest
}

// Leave implements duty.Group. The node stays on the list of services, with the cause as
// its warning.
func (l *listener) Leave(ctx context.Context, cause string) error {
	if err := l.micro.Stop(); err != nil {
		return fmt.Errorf("stop the micro service: %w", err)
	}
	if err := l.register(); err != nil {
		return err
	}
	if l.nats.FlushTimeout(flushTime) != nil {
		return nil // without a server, no requests come
	}
	// The server sends no more requests. What it has sent is handled after a moment.
	tick := time.NewTicker(lingerTime)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
			if l.pending.Load() == 0 {
				return l.nats.FlushTimeout(flushTime)
			}
		}
	}
}
