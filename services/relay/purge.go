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

// housekeeper drops unneeded messages from the feed. A single relay at a time
// does so; two do no harm.
type housekeeper struct {
	relay *Relay

	// owned by the watch
	term   leader.Term // of the feed, in which the rest was seen
	since  time.Time   // when the relay noticed the term
	seen   []sample    // of the feed, the oldest first
	behind bool        // a server of the feed's is there but behind
	purged map[string]uint64
	unseen map[events.Kind]waiting
}

// sample is the number of the feed's last message at a time.
type sample struct {
	at   time.Time
	last uint64
}

// look asks how full the feed is.
func (h *housekeeper) look(ctx context.Context) error {
	call, cancel := h.relay.request(ctx)
	defer cancel()
	info, err := h.relay.feed.Info(call)
	if err != nil {
		return fmt.Errorf("look at the feed: %w", err)
	}
	h.relay.room.told(int64(info.State.Bytes), info.Config.MaxBytes) //nolint:gosec // bytes on a disk
	h.relay.metrics.waits.Set(0)
	if !h.relay.room.forBuckets() {
		h.relay.metrics.waits.Set(1)
	}
	h.behind = isCatchingUp(info.Cluster)
	now := h.relay.cfg.Now()
	h.seen = append(h.seen, sample{now, info.State.LastSeq})
	for len(h.seen) > 1 && now.Sub(h.seen[1].at) >= h.settled() {
		h.seen = h.seen[1:]
	}
	return nil
}

// settled is how long a consumer takes at most to learn of a message, on a server
// that is not behind. Until then it says that it has nothing to do.
func (h *housekeeper) settled() time.Duration { return h.relay.tuning.Purge / 3 }

// last returns the number of the last message that all consumers know of: 0 if unknown.
func (h *housekeeper) last() uint64 {
	if h.isQuarantined() || len(h.seen) == 0 || h.relay.cfg.Now().Sub(h.seen[0].at) < h.settled() {
		return 0
	}
	return h.seen[0].last
}

// isQuarantined reports whether the term is so young that the progress of consumers does
// not count. A consumer may remember having delivered numbers that NATS has forgotten,
// until the services' members have had time to look at the feed in this term.
func (h *housekeeper) isQuarantined() bool {
	return h.relay.cfg.Now().Sub(h.since) < h.relay.tuning.Quarantine
}

// keep drops the changes that all services have seen, the changes of a kind above its
// bound, and the markers of stream shards that are gone, given the listed streams.
func (h *housekeeper) keep(ctx context.Context, listed []stream) {
	if h.behind {
		return // a consumer may be there that has yet to learn of the progress of others
	}
	if err := errors.Join(h.purge(ctx), h.forgetMarkers(ctx, listed)); err != nil && ctx.Err() == nil {
		h.relay.metrics.failures.Inc()
		h.relay.cfg.Log.WarnContext(ctx, "the feed is purged later", "error", err)
	}
}

// purge drops each kind below the floor of the services that follow it, so that a
// slow service holds no other kind up. A kind without a service is kept, for the
// first to come.
func (h *housekeeper) purge(ctx context.Context) error {
	call, cancel := h.relay.request(ctx)
	defer cancel()
	all, err := h.followers(call)
	if err != nil {
		return err
	}
	if err := h.tellExpired(call, all); err != nil {
		return err
	}
	for _, kind := range events.Kinds() {
		floor, err := h.floor(call, kind, all.of(kind))
		if err != nil {
			return err
		}
		if err := h.purgeBelow(call, events.KindSubject(kind), floor); err != nil {
			return err
		}
	}
	if err := h.purgeBelow(call, events.ReplaysAll, floorOf(all.following(events.ReplaysAll), h.last())); err != nil {
		return err
	}
	return h.bound(call, all)
}

func (h *housekeeper) purgeBelow(ctx context.Context, subject string, floor uint64) error {
	if floor <= h.purged[subject] {
		return nil
	}
	if err := h.drop(ctx, jetstream.WithPurgeSubject(subject), jetstream.WithPurgeSequence(floor+1)); err != nil {
		return err
	}
	h.purged[subject] = floor
	highest := uint64(0)
	for _, number := range h.purged {
		highest = max(highest, number)
	}
	h.relay.metrics.purged.Set(float64(highest))
	return nil
}

// drop purges the feed, unless it has a new term: the progress of the consumers may be
// forgotten by then.
func (h *housekeeper) drop(ctx context.Context, what ...jetstream.StreamPurgeOpt) error {
	if err := h.relay.history.check(ctx, h.term); err != nil {
		return err
	}
	if err := h.relay.feed.Purge(ctx, what...); err != nil {
		return fmt.Errorf("purge the feed: %w", err)
	}
	return nil
}

// isCatchingUp reports whether a server of the feed's is there but behind.
func isCatchingUp(c *jetstream.ClusterInfo) bool {
	return c != nil && slices.ContainsFunc(c.Replicas, func(p *jetstream.PeerInfo) bool { return !p.Offline && !p.Current })
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
	return h.drop(call, jetstream.WithPurgeSubject(events.CheckpointSubject(shard)), jetstream.WithPurgeSequence(m.number+1))
}
