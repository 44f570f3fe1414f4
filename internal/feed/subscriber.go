package feed

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/sourcegraph/conc"
)

// subscriber feeds the router with the batches of the member's lanes, a
// message per batch.
//
// It gives its messages a context of its own: Watermill ends that of a running
// handler the moment it is told to stop, which would abort a half-done write.
type subscriber struct {
	g       *Group
	feed    jetstream.Stream
	members *Members
	out     chan *message.Message

	handling context.Context //nolint:containedctx // of all handlers; ends when draining has taken too long
	abort    context.CancelFunc
	stopping chan struct{}
	stopOnce sync.Once
	ended    chan struct{}

	// owned by keep
	running map[int]*runningLane
	lanes   conc.WaitGroup
}

type runningLane struct {
	stop  context.CancelFunc
	ended chan struct{}
}

func newSubscriber(g *Group, feed jetstream.Stream, m *Members) *subscriber {
	s := &subscriber{
		g: g, feed: feed, members: m, out: make(chan *message.Message),
		stopping: make(chan struct{}), ended: make(chan struct{}), running: map[int]*runningLane{},
	}
	s.handling, s.abort = context.WithCancel(context.Background())
	return s
}

// Subscribe implements message.Subscriber; it is called once. The channel is
// closed when the last batch is done.
func (s *subscriber) Subscribe(ctx context.Context, _ string) (<-chan *message.Message, error) {
	go s.keep(ctx)
	return s.out, nil
}

// Close takes no more batches and waits for the batches under way.
func (s *subscriber) Close() error {
	s.stopOnce.Do(func() { close(s.stopping) })
	<-s.ended
	return nil
}

// keep pulls the lanes that the member owns, while members come and go.
func (s *subscriber) keep(ctx context.Context) {
	defer close(s.ended)
	defer close(s.out)
	defer s.abort()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	ticker := time.NewTicker(s.g.tuning.Heartbeat)
	defer ticker.Stop()
	s.rebalance(ctx)
	close(s.g.ready)
	for {
		select {
		case <-ctx.Done():
			s.drain()
			return
		case <-s.stopping:
			s.drain()
			return
		case <-ticker.C:
			s.remember(ctx)
			s.rebalance(ctx)
		}
	}
}

// remember checks in a new term that the feed has all handled records.
func (s *subscriber) remember(ctx context.Context) {
	if err := s.g.history.look(ctx); err != nil && ctx.Err() == nil {
		s.g.metrics.failures.Inc()
		s.g.cfg.Log.WarnContext(ctx, "whether NATS has forgotten records is unknown: the next heartbeat looks again", "service", s.g.cfg.Service, "error", err)
	}
}

// rebalance sends a heartbeat and takes or gives up lanes. Without an
// answer from NATS it keeps its lanes: the pins guard them.
func (s *subscriber) rebalance(ctx context.Context) {
	call, cancel := context.WithTimeout(ctx, s.g.tuning.MemberTTL)
	defer cancel()
	living, err := s.members.Beat(call)
	if err != nil {
		if !errors.Is(err, context.Canceled) {
			s.g.cfg.Log.WarnContext(ctx, "the list of members cannot be read: lanes stay as they are", "service", s.g.cfg.Service, "error", err)
		}
		return
	}
	mine := lanesOf(s.g.cfg.Member, living)
	for number, l := range s.running {
		if !mine[number] {
			l.stop()
		}
		select {
		case <-l.ended:
			delete(s.running, number)
		default: // its last batch is under way
		}
	}
	for number := range mine {
		if s.running[number] == nil {
			s.start(ctx, number)
		}
	}
	s.g.metrics.lanes.Set(float64(len(mine)))
	s.g.progress.owns(mine)
}

func (s *subscriber) start(ctx context.Context, number int) {
	ctx, cancel := context.WithCancel(ctx)
	r := &runningLane{stop: cancel, ended: make(chan struct{})}
	s.running[number] = r
	s.lanes.Go(func() {
		defer close(r.ended)
		defer cancel()
		l := &lane{s: s, number: number, name: consumerName(s.g.cfg.Service, number)}
		l.run(ctx)
	})
}

// drain stops all lanes and leaves the group, so that others take them at once.
func (s *subscriber) drain() {
	alarm := time.AfterFunc(s.g.tuning.DrainTimeout, s.abort)
	defer alarm.Stop()
	for _, l := range s.running {
		l.stop()
	}
	s.lanes.Wait()
	ctx, cancel := context.WithTimeout(context.Background(), s.g.tuning.MemberTTL)
	defer cancel()
	if err := s.members.Leave(ctx); err != nil {
		s.g.cfg.Log.Warn("the member cannot leave its group: others take its lanes over after its TTL", "service", s.g.cfg.Service, "error", err)
	}
}
