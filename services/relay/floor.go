package relay

import (
	"context"
	"errors"
	"slices"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/tidegate/tidegate/internal/leader"
	"github.com/tidegate/tidegate/pkg/events"
)

// floor returns the number in the feed up to which a kind may be purged, given the
// consumers that follow it.
//
// A consumer reports that it has nothing to do until it learns of a new message. The
// housekeeper allows for that by going only up to messages that are some time old. A feed
// that is half full has no such time: then the feed's leader tells for each consumer
// whether there is a message that the consumer has not acknowledged.
func (h *housekeeper) floor(ctx context.Context, kind events.Kind, consumers followers) (uint64, error) {
	floor := floorOf(consumers, h.last())
	if h.isQuarantined() || len(consumers) == 0 || !h.relay.room.isHalfFull() {
		return floor, nil
	}
	now, err := h.acknowledged(ctx, events.KindSubject(kind), consumers)
	return max(floor, now), err
}

// acknowledged returns the number up to which the consumers have acknowledged all messages
// of a subject, which may have wildcards, as the feed's leader has them. It does not go by
// what consumers say is left for them.
func (h *housekeeper) acknowledged(ctx context.Context, subject string, consumers followers) (uint64, error) {
	nc := h.relay.cfg.NATS
	info, err := leader.Info(ctx, nc, events.StreamName)
	if err != nil {
		return 0, err
	}
	floor := info.State.LastSeq // before the newest messages are read: what comes later has a higher number
	newest := map[string]uint64{}
	for _, c := range consumers {
		if c.AckFloor.Stream >= floor {
			continue
		}
		if isBehind(c) {
			floor = c.AckFloor.Stream
			continue
		}
		for _, filter := range filtersOf(c) {
			if !overlap(filter, subject) {
				continue
			}
			if _, known := newest[filter]; !known {
				m, err := leader.Last(ctx, nc, events.StreamName, filter)
				if err != nil && !errors.Is(err, leader.ErrNone) {
					return 0, err
				}
				if newest[filter] = 0; err == nil {
					newest[filter] = m.Sequence
				}
			}
			if newest[filter] > c.AckFloor.Stream {
				floor = min(floor, c.AckFloor.Stream)
			}
		}
	}
	return floor, nil
}

// filtersOf returns the subjects that a consumer follows.
func filtersOf(c *jetstream.ConsumerInfo) []string {
	switch {
	case c.Config.FilterSubject != "":
		return []string{c.Config.FilterSubject}
	case len(c.Config.FilterSubjects) == 0:
		return []string{">"}
	}
	return slices.Clone(c.Config.FilterSubjects)
}
