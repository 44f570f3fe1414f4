package feed

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/tidegate/tidegate/internal/leader"
	"github.com/tidegate/tidegate/internal/process"
	"github.com/tidegate/tidegate/pkg/events"
)

// history remembers the last handled records, to notice that NATS has forgotten
// records that were handled. It is safe for concurrent use.
//
// Records that take the place of the forgotten ones would be skipped if the lane's
// consumer remembers having delivered these numbers. A feed loses messages only
// between two terms of its leader. So the member looks once in each new term for the
// last record of each lane that it has handled, even if another member follows the lane now; and
// no batch is handled or acknowledged in a term in which it has not looked.
//
// Two records are the same if their numbers and the times at which they were stored are. A record
// that is there proves all before it. A record that is gone may have been dropped
// because every service had seen it, or for its age; then so were all before it,
// and a lane that begins at the start of the feed repeats nothing.
type history struct {
	g    *Group
	nats *nats.Conn

	looking chan struct{} // holds an element while a goroutine looks

	mu   sync.Mutex
	term leader.Term   // that was looked at; guarded by mu
	last map[int]place // of the last record that was handled, by lane; guarded by mu
}

// place is where a record is in the feed.
type place struct {
	number uint64
	at     time.Time // when it was stored
}

// looked returns the term in which the member has looked, or the zero term.
func (h *history) looked() leader.Term {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.term
}

// isCurrent reports whether a term still holds, and the member has looked in it.
func (h *history) isCurrent(ctx context.Context, term leader.Term) (bool, error) {
	if term != h.looked() {
		return false, nil
	}
	call, cancel := context.WithTimeout(ctx, adminTimeout)
	defer cancel()
	return leader.Holds(call, h.nats, events.StreamName, term)
}

// handled notes the last record of a batch that was pulled in a term. It reports
// whether the term still is; otherwise the batch must not be acknowledged, because
// its numbers may belong to other records by now.
func (h *history) handled(ctx context.Context, term leader.Term, lane int, last *jetstream.MsgMetadata) (bool, error) {
	if current, err := h.isCurrent(ctx, term); err != nil || !current {
		return false, err
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.term == term {
		h.last[lane] = place{last.Sequence.Stream, last.Timestamp}
	}
	return h.term == term, nil
}

// look makes sure that the lanes' consumers skip nothing, once in each term. It makes
// the feed and the consumers that are gone.
func (h *history) look(ctx context.Context) error {
	select {
	case h.looking <- struct{}{}:
	case <-ctx.Done():
		return ctx.Err()
	}
	defer func() { <-h.looking }()
	if current, err := h.isCurrent(ctx, h.looked()); err != nil || current {
		return err
	}
	h.begin(leader.Term{}) // nothing that is handled from now on was verified
	call, cancel := context.WithTimeout(ctx, 2*adminTimeout)
	defer cancel()
	feed, err := FollowFeed(call, h.g.cfg.JetStream, h.g.cfg.Retention)
	if err != nil {
		return err
	}
	term, err := leader.TermOf(call, h.nats, events.StreamName)
	if err != nil {
		return err
	}
	if err := h.g.ensureConsumers(call, feed); err != nil {
		return err
	}
	if err := h.rewind(call, feed); err != nil {
		return err
	}
	if now, err := leader.TermOf(call, h.nats, events.StreamName); err != nil || now != term {
		return errors.Join(err, leader.ErrInterrupted)
	}
	h.begin(term)
	return nil
}

func (h *history) begin(term leader.Term) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.term = term
}

// rewind sets a lane back if its last record is not in the feed any more.
func (h *history) rewind(ctx context.Context, feed jetstream.Stream) error {
	h.mu.Lock()
	last := maps.Clone(h.last)
	h.mu.Unlock()
	if len(last) == 0 {
		return nil
	}
	info, err := leader.Info(ctx, h.nats, events.StreamName)
	if err != nil {
		return err
	}
	forgotten := 0
	for lane, p := range last {
		kept, err := h.keeps(ctx, p)
		if err != nil {
			return err
		}
		isForgotten := kept == keptOther || p.number > info.State.LastSeq
		if kept == keptSame || kept == keptNone && !isForgotten && !h.g.Owns(lane) {
			continue // another member has the lane: this member's memory is old
		}
		if _, err := feed.ResetConsumerToSequence(ctx, consumerName(h.g.cfg.Service, lane), 1); err != nil {
			return fmt.Errorf("set lane %d back to the start of the feed: %w", lane, err)
		}
		if isForgotten {
			forgotten++
		}
		h.forget(lane, p)
	}
	if forgotten > 0 {
		h.g.metrics.forgotten.Inc()
		h.g.cfg.Log.ErrorContext(process.Unsampled(ctx), "NATS has forgotten records that were handled: their lanes begin again at the start of the feed",
			"service", h.g.cfg.Service, "lanes", forgotten)
	}
	return nil
}

// forget drops the remembered record of a lane.
func (h *history) forget(lane int, p place) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.last[lane] == p {
		delete(h.last, lane)
	}
}

// kept is the state of a place in the feed.
type kept uint8

const (
	keptSame  kept = iota // the record that was there
	keptOther             // another
	keptNone              // nothing
)

func (h *history) keeps(ctx context.Context, p place) (kept, error) {
	m, err := leader.At(ctx, h.nats, events.StreamName, p.number)
	switch {
	case errors.Is(err, leader.ErrNone):
		return keptNone, nil
	case err != nil:
		return keptNone, err
	case m.Time.Equal(p.at):
		return keptSame, nil
	}
	return keptOther, nil
}
