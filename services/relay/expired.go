package relay

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/tidegate/tidegate/internal/feed"
	"github.com/tidegate/tidegate/pkg/events"
)

// waiting is the oldest change of a kind, where services had yet to see it a round ago.
type waiting struct {
	message
	// acknowledged is how many deliveries each consumer had acknowledged that had yet to
	// see the change.
	acknowledged map[string]uint64
}

// watchOldest remembers the oldest change of a kind until the next round, if a service
// has yet to see it.
func (h *housekeeper) watchOldest(kind events.Kind, oldest message, all followers) {
	delete(h.unseen, kind)
	if oldest.number == 0 {
		return
	}
	w := waiting{message: oldest, acknowledged: map[string]uint64{}}
	for _, c := range all.following(oldest.subject).behind() {
		if c.AckFloor.Stream < oldest.number {
			w.acknowledged[c.Name] = c.AckFloor.Consumer
		}
	}
	if len(w.acknowledged) > 0 {
		h.unseen[kind] = w
	}
}

// tellExpired tells of changes that grew too old for the feed: a round ago a service
// had yet to see the oldest, has acknowledged nothing since, and it is gone. The floor
// of a consumer says nothing here: it moves over messages that expire.
func (h *housekeeper) tellExpired(ctx context.Context, all followers) error {
	for kind, w := range h.unseen {
		m, err := h.relay.feed.GetMsg(ctx, w.number, jetstream.WithGetMsgSubject(w.subject))
		if err != nil && !errors.Is(err, jetstream.ErrMsgNotFound) {
			return fmt.Errorf("look at the feed: %w", err)
		}
		if err == nil && m.Sequence == w.number {
			continue
		}
		var services []string
		for _, c := range all {
			if before, ok := w.acknowledged[c.Name]; ok && c.AckFloor.Consumer == before {
				services = append(services, feed.ServiceOf(c.Name))
			}
		}
		slices.Sort(services)
		h.dropped(ctx, kind, slices.Compact(services), "they are older than the feed keeps changes")
	}
	return nil
}
