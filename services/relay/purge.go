package relay

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/tidegate/tidegate/internal/leader"
	"github.com/tidegate/tidegate/pkg/events"
)

// markersKept is how long a marker stays of a stream shard that is not listed any
// more: twice as long as DynamoDB keeps records.
const markersKept = 48 * time.Hour

// housekeeper drops from the feed what nobody needs any more. One relay at a time
// does so; two do no harm.
type housekeeper struct {
	relay  *Relay
	term   leader.Term
	last   uint64 // number of the feed's last message a round ago
	purged uint64 // up to which number
}

// keep drops the changes that all services have seen, and the markers of stream
// shards that are gone, given those that are not.
func (h *housekeeper) keep(ctx context.Context, listed []stream) {
	if err := errors.Join(h.purge(ctx), h.forgetMarkers(ctx, listed)); err != nil && ctx.Err() == nil {
		h.relay.metrics.failures.Inc()
		h.relay.cfg.Log.WarnContext(ctx, "the feed is purged later", "error", err)
	}
}

// purge drops changes below the floor of the services. Where there is no service
// nothing is dropped but by age, for the first to come.
func (h *housekeeper) purge(ctx context.Context) error {
	call, cancel := h.relay.request(ctx)
	defer cancel()
	info, err := h.relay.feed.Info(call)
	if err != nil {
		return fmt.Errorf("look at the feed: %w", err)
	}
	if isCatchingUp(info.Cluster) {
		return nil // a consumer may be there that has yet to learn of what was a round ago
	}
	consumers := h.relay.feed.ListConsumers(call)
	var services []*jetstream.ConsumerInfo
	for c := range consumers.Info() {
		if c.Config.Durable != "" && c.Name != replayConsumer {
			services = append(services, c)
		}
	}
	if err := consumers.Err(); err != nil {
		return fmt.Errorf("list the services' consumers: %w", err)
	}
	// A consumer learns of a message a moment after the stream has it, and says
	// until then that it has nothing to do. What was there a round ago it knows, for
	// a round is long, and it is not on a server that is behind.
	floor := floorOf(services, h.last)
	h.last = info.State.LastSeq
	if floor <= h.purged {
		return nil
	}
	if err := h.relay.history.check(call, h.term); err != nil {
		return err // what the consumers have seen may be forgotten by now
	}
	for _, subject := range []string{events.ChangesAll, events.ReplaysAll} {
		if err := h.relay.feed.Purge(call, jetstream.WithPurgeSubject(subject), jetstream.WithPurgeSequence(floor+1)); err != nil {
			return fmt.Errorf("purge the feed: %w", err)
		}
	}
	h.purged = floor
	h.relay.metrics.purged.Set(float64(floor))
	return nil
}

// isCatchingUp reports whether a server of the feed's is there but behind.
func isCatchingUp(c *jetstream.ClusterInfo) bool {
	return c != nil && slices.ContainsFunc(c.Replicas, func(p *jetstream.PeerInfo) bool { return !p.Offline && !p.Current })
}

// floorOf is the number in the feed up to which every consumer has acknowledged
// what is for it, given the number of the last message that all of them know of.
func floorOf(consumers []*jetstream.ConsumerInfo, last uint64) uint64 {
	if len(consumers) == 0 {
		return 0
	}
	floor := last
	for _, c := range consumers {
		if c.NumPending > 0 || c.NumAckPending > 0 {
			floor = min(floor, c.AckFloor.Stream)
		}
	}
	return floor
}

// forgetMarkers drops old markers of stream shards that are not listed any more.
func (h *housekeeper) forgetMarkers(ctx context.Context, listed []stream) error {
	if len(listed) == 0 {
		return nil // nothing is known
	}
	there := map[string]bool{}
	for _, st := range listed {
		for _, s := range st.shards {
			there[s.id] = true
		}
	}
	call, cancel := h.relay.request(ctx)
	defer cancel()
	info, err := h.relay.feed.Info(call, jetstream.WithSubjectFilter(events.CheckpointsAll))
	if err != nil {
		return fmt.Errorf("list the checkpoints: %w", err)
	}
	for subject := range info.State.Subjects {
		shard, err := events.ParseCheckpointSubject(subject)
		if err != nil || there[shard] {
			continue
		}
		if err := h.forgetMarker(ctx, shard); err != nil {
			return err
		}
	}
	return nil
}

func (h *housekeeper) forgetMarker(ctx context.Context, shard string) error {
	call, cancel := h.relay.request(ctx)
	defer cancel()
	m, err := lastMarker(call, h.relay.cfg.NATS, shard)
	if err != nil || m.number == 0 || h.relay.cfg.Now().Sub(m.at) < markersKept {
		return err
	}
	if !m.Closed {
		h.relay.lost(ctx, shard, m.Sequence, nil)
	}
	if err := h.relay.feed.Purge(call, jetstream.WithPurgeSubject(events.CheckpointSubject(shard)), jetstream.WithPurgeSequence(m.number+1)); err != nil {
		return fmt.Errorf("drop a checkpoint: %w", err)
	}
	return nil
}
