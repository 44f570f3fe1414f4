package relay

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/tidegate/tidegate/internal/feed"
	"github.com/tidegate/tidegate/internal/leader"
	"github.com/tidegate/tidegate/internal/process"
	"github.com/tidegate/tidegate/pkg/events"
)

// errNewTerm says that the feed's leader, or its process, has changed:
// the relay's memory of the feed may be wrong.
var errNewTerm = errors.New("the feed has a new term")

// history remembers the last acknowledged batch, to notice that NATS has forgotten
// acknowledged changes. It is safe for concurrent use.
//
// A feed loses messages only between two terms. So everything that the relay knows
// of the feed (markers, and which stream shards were read to their end) counts in
// the term in which it was seen. Decisions on it stop in a new term.
type history struct {
	relay *Relay

	mu   sync.Mutex
	term leader.Term  // that was looked at; guarded by mu
	last leader.Batch // the acknowledged batch with the highest number; guarded by mu
}

// acknowledged notes a batch that is in the feed.
func (h *history) acknowledged(b leader.Batch) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if b.Last > h.last.Last {
		h.last = b
	}
}

// check returns errNewTerm unless a term still holds.
func (h *history) check(ctx context.Context, term leader.Term) error {
	call, cancel := h.relay.request(ctx)
	defer cancel()
	holds, err := leader.Holds(call, h.relay.cfg.NATS, events.StreamName, term)
	if err == nil && !holds {
		err = errNewTerm
	}
	return err
}

// look returns the present term. In a new term it finds out whether the feed still
// has the acknowledged batches, and makes a missing feed.
func (h *history) look(ctx context.Context) (leader.Term, error) {
	h.mu.Lock()
	known := h.term
	h.mu.Unlock()
	if known != (leader.Term{}) && h.check(ctx, known) == nil {
		return known, nil
	}
	call, cancel := h.relay.request(ctx)
	defer cancel()
	term, err := leader.TermOf(call, h.relay.cfg.NATS, events.StreamName)
	var refused *jetstream.APIError
	if errors.As(err, &refused) && refused.ErrorCode == jetstream.JSErrCodeStreamNotFound {
		if _, err = feed.EnsureFeed(call, h.relay.js, h.relay.cfg.Retention); err == nil {
			term, err = leader.TermOf(call, h.relay.cfg.NATS, events.StreamName)
		}
	}
	if err != nil {
		return leader.Term{}, err
	}
	return term, h.compare(call, term)
}

// compare looks for the last batch that was acknowledged.
func (h *history) compare(ctx context.Context, term leader.Term) error {
	h.mu.Lock()
	last := h.last
	h.mu.Unlock()
	forgotten, err := h.forgotten(ctx, last)
	if err == nil {
		err = h.check(ctx, term)
	}
	if err != nil {
		return fmt.Errorf("compare the feed with what was acknowledged: %w", err)
	}
	if forgotten {
		h.relay.metrics.forgot.Inc()
		h.relay.cfg.Log.ErrorContext(process.Unsampled(ctx), "NATS has forgotten changes of the feed that it had acknowledged: they are published again", "last", last.Last)
		last = leader.Batch{}
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.term, h.last = term, last
	return nil
}

// forgotten reports whether the feed is shorter than it was, or has another message
// where a batch ended. A missing message was dropped: a later marker of the
// same stream shard does so. If other relays have filled a feed up that went back,
// this is such a case too; then there is no alarm, and markers are read anew all the
// same.
func (h *history) forgotten(ctx context.Context, last leader.Batch) (bool, error) {
	if last.Last == 0 {
		return false, nil
	}
	info, err := leader.Info(ctx, h.relay.cfg.NATS, events.StreamName)
	if err != nil || info.State.LastSeq < last.Last {
		return err == nil, err
	}
	m, err := leader.At(ctx, h.relay.cfg.NATS, events.StreamName, last.Last)
	if errors.Is(err, leader.ErrNone) {
		return false, nil
	}
	return err == nil && m.Batch() != last.ID, err
}
