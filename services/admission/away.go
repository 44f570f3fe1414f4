package admission

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/tidegate/tidegate/pkg/api"
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
func (l *listener) watched(endpoint int, handle nats.MsgHandler) nats.MsgHandler {
	busy := &l.busy[endpoint]
	return func(m *nats.Msg) {
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

// Return implements duty.Group: it subscribes to the requests.
func (l *listener) Return() error {
	if _, err := l.drainIntakes(); err != nil { // an attempt before has failed
		return err
	}
	for i, e := range l.endpoints() {
		intake, err := l.nats.QueueSubscribe(e.subject, api.QueueGroup, l.watched(i, e.handler))
		if err == nil {
			err = intake.SetPendingLimits(pendingMessages, pendingBytes)
		}
		if err != nil {
			return fmt.Errorf("admission: subscribe to %s: %w", e.subject, err)
		}
		l.intakes = append(l.intakes, intake)
	}
	if err := l.nats.FlushTimeout(flushTime); err != nil {
		return fmt.Errorf("admission: announce the service: %w", err)
	}
	return nil
}

// drainIntakes ends the subscriptions to requests. The channel is closed when their last
// messages are handled.
func (l *listener) drainIntakes() (closed <-chan struct{}, err error) {
	intakes, all := l.intakes, make(chan struct{})
	l.intakes = nil
	if len(intakes) == 0 {
		close(all)
		return all, nil
	}
	open := new(atomic.Int64)
	open.Store(int64(len(intakes)))
	for _, intake := range intakes {
		intake.SetClosedHandler(func(string) {
			if open.Add(-1) == 0 {
				close(all)
			}
		})
		if err := intake.Drain(); err != nil && !errors.Is(err, nats.ErrConnectionClosed) {
			return nil, fmt.Errorf("admission: stop the requests: %w", err)
		}
	}
	return all, nil
}

// Leave implements duty.Group. The node stays on the list of services, with the cause as
// its warning.
func (l *listener) Leave(ctx context.Context, _ string) error {
	closed, err := l.drainIntakes()
	if err != nil {
		return err
	}
	select {
	case <-ctx.Done():
		return nil // a handler that is stuck keeps its messages
	case <-closed:
	}
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for l.pending.Load() > 0 {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
	_ = l.nats.FlushTimeout(flushTime) // without a server, no replies are lost here
	return nil
}
