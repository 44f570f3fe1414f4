package relay

import (
	"context"
	"errors"
	"maps"

	"github.com/nats-io/nats.go"

	"github.com/tidegate/tidegate/internal/feed"
	"github.com/tidegate/tidegate/internal/leader"
)

// survey knows the running relays, the table's stream shards and which of them are
// finished in the feed. It is owned by the watch.
type survey struct {
	relay   *Relay
	members *feed.Members
	living  []string // the running relays
	streams []stream
	done    map[source]bool // stream shards that were read to their end
	term    leader.Term     // of the feed, in which done was seen
	known   bool            // the feed has markers of the table's streams
}

// meet sends a heartbeat and asks for the running relays.
func (s *survey) meet(ctx context.Context) {
	call, cancel := context.WithTimeout(ctx, s.relay.tuning.MemberTTL)
	defer cancel()
	living, err := s.members.Beat(call)
	switch {
	case err == nil:
		s.living = living
	case ctx.Err() == nil:
		s.relay.cfg.Log.WarnContext(ctx, "the other relays cannot be seen: each goes on with what it has", "error", err)
	}
}

// leave leaves the group, so that others take over at once.
func (s *survey) leave() {
	ctx, cancel := context.WithTimeout(context.Background(), s.relay.tuning.MemberTTL)
	defer cancel()
	if err := s.members.Leave(ctx); err != nil {
		s.relay.cfg.Log.Warn("the other relays will take over when this one's time is up", "error", err)
	}
}

// owns reports whether work of this name is this relay's part.
func (s *survey) owns(name string) bool {
	return feed.Owner(name, s.living) == s.relay.cfg.Member
}

// list lists the table's streams.
func (s *survey) list(ctx context.Context) error {
	streams, err := s.relay.store.streams(ctx)
	if err == nil && len(streams) == 0 {
		err = errors.New("the table has no stream: make it with tidegate table create, or enable its stream with new and old images")
	}
	if err != nil {
		return err
	}
	s.streams = streams
	s.forget()
	return nil
}

// forget drops the state of stream shards that are listed no more.
func (s *survey) forget() {
	listed := map[source]bool{}
	for _, st := range s.streams {
		for _, shard := range st.shards {
			listed[source{st.arn, st.label, shard.id}] = true
		}
	}
	maps.DeleteFunc(s.done, func(at source, _ bool) bool { return !listed[at] })
}

// remember looks whether the feed is as this relay left it, and reports whether its term
// is new. In a new term the relay forgets the finished shards: a parent's end may be
// forgotten, and its records come before the records of its children.
func (s *survey) remember(ctx context.Context) (isNew bool, err error) {
	term, err := s.relay.history.look(ctx)
	if err != nil || term == s.term {
		return false, err
	}
	s.term = term
	clear(s.done)
	s.known = false
	return true, nil
}

// mark publishes a marker that no reader does, and messages before it, in the term
// in which the watch looked at the feed.
func (s *survey) mark(ctx context.Context, messages []*nats.Msg, mark checkpoint, fence uint64) error {
	if err := s.relay.history.check(ctx, s.term); err != nil {
		return err
	}
	batch, err := publish(ctx, s.relay.cfg.NATS, messages, mark, fence)
	if err != nil {
		return err
	}
	s.relay.history.acknowledged(batch)
	return nil
}
