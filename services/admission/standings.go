package admission

import (
	"context"
	"errors"
	"slices"

	"github.com/tidegate/tidegate/internal/shards"
	"github.com/tidegate/tidegate/internal/store"
	"github.com/tidegate/tidegate/pkg/api"
	"github.com/tidegate/tidegate/pkg/keys"
)

// levelsOf reads the cascade levels that an acquire of the child would spend from, by
// consistent reads, levels without limits left out. It fails with the child's refusal if
// no level has limits, and if no level has a limit that amounts name.
func (r *router) levelsOf(ctx context.Context, child keys.Bucket, amounts api.Amounts) ([]*result, error) {
	var levels []*result
	var none error
	entities := make([]string, 0, maxLevels)
	for at := child; len(entities) < maxLevels; {
		state, err := r.readState(ctx, at)
		if err != nil {
			return nil, err
		}
		if state.err == nil {
			levels = append(levels, state)
		} else if at == child {
			none = state.err
		}
		entities = append(entities, at.Entity)
		parent := parentOf(at.Entity, state.settings)
		if parent == "" || slices.Contains(entities, parent) {
			break
		}
		at = parentBucket(at, parent)
	}
	if len(levels) == 0 {
		return nil, none
	}
	settings := make([]levelSettings, len(levels))
	for i, l := range levels {
		settings[i] = levelSettings{l.item.Key, l.settings}
	}
	return levels, unknownAt(settings, amounts)
}

// readState returns the state of a bucket by consistent reads; a bucket that does not
// exist is full. If the bucket has no limits, the state's err is the refusal.
func (r *router) readState(ctx context.Context, key keys.Bucket) (*result, error) {
	base, override := baseResource(key.Resource)
	settings, none := r.env.settings.resolve(ctx, r.env.store.timeout, key.Namespace, key.Entity, base)
	if none != nil && !isNoLimits(none) {
		return nil, none
	}
	item, err := r.env.store.read(ctx, key)
	if err != nil {
		return nil, err
	}
	tree := shards.Tree{item}
	if item != nil && item.Level > 1 {
		if tree, err = r.readTree(ctx, key, max(item.Want, item.Level)); err != nil {
			return nil, err
		}
		item = tree.Find(0)
	}
	now, err := r.env.clock.Now()
	if err != nil {
		return nil, err
	}
	state := &result{shardResult: shardResult{settings: &settings, now: now}}
	switch {
	case override && item == nil:
		state.err = errNotBrought()
	case override:
		settings = settings.With(item.LimitSettings()) // it never gets others
	default:
		state.err = none
	}
	if state.err == nil {
		state.item = inForce(now, key, item, &settings)
		if item != nil {
			state.addOthers(treeInForce(now, tree, &settings))
		}
	}
	return state, nil
}

// bucketStatus returns the status of a bucket and of the ancestors' buckets that an
// acquire spends from as well.
func (r *router) bucketStatus(ctx context.Context, ns string, req api.StatusRequest) (*api.StatusReply, error) {
	levels, err := r.levelsOf(ctx, keys.Bucket{Namespace: ns, Entity: req.Entity, Resource: req.Resource}, req.Consume)
	if err != nil {
		return nil, err
	}
	if len(req.Consume) == 0 {
		reply := &api.StatusReply{}
		for _, l := range levels {
			reply.Limits = append(reply.Limits, l.statuses(nil)...)
		}
		return reply, nil
	}
	statuses, wait, allowed := verdictOver(levels, req.Consume)
	return &api.StatusReply{Allowed: &allowed, RetryAfterMs: wait, Never: wait == neverMs, Limits: statuses}, nil
}

// entityStatus returns the status of all buckets that the entity has spent from and still
// has limits for. Resources with an item that cannot be decoded are named.
func (r *router) entityStatus(ctx context.Context, ns, entity string) (*api.StatusReply, error) {
	found, err := r.env.store.bucketsOf(ctx, ns, entity)
	if err != nil {
		return nil, err
	}
	reply := &api.StatusReply{Limits: []api.LimitStatus{}}
	for _, resource := range found {
		of, err := r.bucketStatus(ctx, ns, api.StatusRequest{Entity: entity, Resource: resource})
		switch {
		case isNoLimits(err):
			continue
		case errors.Is(blamed(err, nil), errDamaged):
			r.env.logStore(ctx, "read the status", keys.Bucket{Namespace: ns, Entity: entity, Resource: resource}, err)
			reply.Damaged = append(reply.Damaged, resource)
			continue
		case err != nil:
			return nil, err
		}
		for _, status := range of.Limits {
			status.Resource = resource
			reply.Limits = append(reply.Limits, status)
		}
	}
	return reply, nil
}

// wholeOf adds the other shards to the result of a shard, under its settings. If they
// cannot be read until ctx ends, the result shows its shard alone.
func (r *router) wholeOf(ctx context.Context, res *result) {
	if res.item.Level == 1 || res.others != nil {
		return
	}
	key := res.item.Key
	key.Shard = 0
	tree, err := r.member(key).bucket().tree(ctx)
	if err != nil {
		return
	}
	if res.settings != nil {
		tree = treeInForce(res.now, tree, res.settings)
	}
	res.addOthers(tree)
}

// isOutage reports an error that the unavailable policy answers: the store, its clock, or
// the settings could not be relied on.
func isOutage(err error) bool {
	var coded *api.Error
	if errors.As(err, &coded) {
		return coded.Code == api.CodeUnavailable
	}
	for _, outage := range []error{errStoreDown, errStoreSlow, errUnknown, errSettingsGet, errUnsettled, store.ErrClockSkewed, store.ErrClockUnchecked} {
		if errors.Is(err, outage) {
			return true
		}
	}
	return false
}
