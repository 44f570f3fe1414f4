package sharder

import (
	"context"
	"errors"
	"fmt"

	"github.com/tidegate/tidegate/internal/config"
	"github.com/tidegate/tidegate/internal/shards"
	"github.com/tidegate/tidegate/internal/table"
	"github.com/tidegate/tidegate/pkg/api"
	"github.com/tidegate/tidegate/pkg/bucket"
	"github.com/tidegate/tidegate/pkg/keys"
)

// errOvertaken says that a bucket has changed since the step was planned. Its state
// has been noted, and is planned for next.
var errOvertaken = errors.New("the bucket has changed since")

// carry makes a step. Once begun it is ended, also if the sharder is told to stop.
func (s *Sharder) carry(ctx context.Context, e task) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), stepTime)
	defer cancel()
	err := s.advance(ctx, e)
	s.metrics.result(e.kind, err).Inc()
	s.tracker.done(e.key, err == nil, s.nowMs())
	log := s.cfg.Log.With("step", e.kind.String(), "bucket", e.key.Key().PK, "from", e.from, "to", e.to)
	switch {
	case err == nil:
		log.InfoContext(ctx, "the shards of a bucket have changed")
	case !errors.Is(err, errOvertaken):
		log.WarnContext(ctx, "the shards of a bucket could not be changed", "error", err)
	}
}

// advance makes a step of a bucket as it is found now.
func (s *Sharder) advance(ctx context.Context, e task) error {
	tree, err := s.shards.Read(ctx, e.key, 0)
	if err != nil {
		return err
	}
	units, since := s.tracker.unseen(e.key, tree)
	of := s.applied(ctx, tree)
	s.tracker.read(e.key, tree, of, s.nowMs())
	if len(tree) == 0 || tree.Wanted() != e.from {
		return errOvertaken
	}
	switch e.kind {
	case double:
		if !servesAlone(of.limits, e.to) {
			return errOvertaken
		}
		tree, err = s.shards.Double(ctx, e.key, e.from)
	case spread:
		tree, err = s.shards.Spread(ctx, e.key)
	case merge:
		if !s.tracker.merges(e.key, e.to, s.nowMs()) { // by limits that were not known before
			return errOvertaken
		}
		if load := perSecond(units, s.nowMs()-since); e.to < e.from && load > roomy*int64(e.to) {
			s.tracker.catchUp(e.key, load, s.nowMs())
			return errOvertaken
		}
		if tree, err = s.sync(ctx, tree); err == nil {
			tree, err = s.shards.Shrink(ctx, e.key, e.to)
		}
	case stay:
	}
	if err != nil {
		return err
	}
	s.tracker.read(e.key, tree, s.applied(ctx, tree), s.nowMs())
	return nil
}

// servesAlone reports whether shares of limits are of a token or more.
func servesAlone(limits []bucket.Limit, count int) bool {
	return shards.Serves(limits, count, func(string) int64 { return 0 })
}

// applied returns the settings that apply to a bucket: its shards' settings, or, if the
// shards differ, the stored ones. If these cannot be read, shard 0 stands for the others.
func (s *Sharder) applied(ctx context.Context, tree shards.Tree) settings {
	if len(tree) == 0 {
		return settings{}
	}
	zero := tree[0]
	if !tree.Synced(zero.Fingerprint) {
		if resolved, err := s.settings(ctx, zero); err == nil {
			return settings{resolved.Fingerprint, resolved.Limits}
		}
	}
	return settings{zero.Fingerprint, zero.LimitSettings()}
}

// perSecond returns the load per second of a number of units in some milliseconds, of a second at
// least.
func perSecond(units, ms int64) int64 { return units * 1000 / max(1000, ms) }

// sync brings the shards to the same settings, the settings that hold now: a shard without
// spends stays at older settings, and cannot be merged.
func (s *Sharder) sync(ctx context.Context, tree shards.Tree) (shards.Tree, error) {
	if tree.Synced(tree[0].Fingerprint) {
		return tree, nil
	}
	settings, err := s.settings(ctx, tree[0])
	if err != nil {
		return nil, err
	}
	return s.shards.Sync(ctx, tree[0].Key, &settings)
}

// settings returns the settings that hold for a bucket. A bucket of requests with their own
// limits keeps these; the parent of its entity may have changed.
func (s *Sharder) settings(ctx context.Context, zero *table.Bucket) (config.Resolved, error) {
	resource, _, override := keys.ParseOverride(zero.Key.Resource)
	if !override {
		return s.limits.Resolve(ctx, zero.Key.Namespace, zero.Key.Entity, zero.Key.Resource)
	}
	resolved, err := s.limits.Resolve(ctx, zero.Key.Namespace, zero.Key.Entity, resource)
	if refusal := (*api.Error)(nil); err != nil && !errors.As(err, &refusal) {
		return resolved, fmt.Errorf("find out who an entity cascades to: %w", err)
	}
	return resolved.With(zero.LimitSettings()), nil
}
