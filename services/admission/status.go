package admission

import (
	"context"
	"errors"
	"slices"

	"github.com/tidegate/tidegate/internal/config"
	"github.com/tidegate/tidegate/internal/shards"
	"github.com/tidegate/tidegate/internal/table"
	"github.com/tidegate/tidegate/pkg/api"
	"github.com/tidegate/tidegate/pkg/bucket"
	"github.com/tidegate/tidegate/pkg/keys"
)

// status answers how limits stand, from a consistent read, spending nothing.
func (s *Service) status(ctx context.Context, r *request) {
	req, err := api.DecodeStatus(r.body)
	if err != nil {
		r.refuse(asError(err))
		return
	}
	var reply *api.StatusReply
	if req.Resource != "" {
		reply, err = s.bucketStatus(ctx, r.namespaceID, req)
	} else {
		reply, err = s.entityStatus(ctx, r.namespaceID, req.Entity)
	}
	if err != nil {
		r.refuse(s.storeError(ctx, "read the status of entity "+req.Entity, err))
		return
	}
	r.respondJSON(reply)
}

// bucketStatus is one bucket's, and those of the ancestors that an acquire
// spends from as well.
func (s *Service) bucketStatus(ctx context.Context, ns string, req api.StatusRequest) (*api.StatusReply, error) {
	levels, err := s.statusLevels(ctx, keys.Bucket{Namespace: ns, Entity: req.Entity, Resource: req.Resource})
	if err != nil {
		return nil, err
	}
	settings := make([]levelSettings, len(levels))
	for i, l := range levels {
		settings[i] = levelSettings{l.item.Key, l.settings}
	}
	if err := unknownAt(settings, req.Consume); err != nil {
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

// statusLevels reads the levels that an acquire would spend from, those without
// limits left out. It fails with the child's refusal where none has any.
func (s *Service) statusLevels(ctx context.Context, child keys.Bucket) ([]*result, error) {
	var levels []*result
	var none error
	entities := make([]string, 0, maxLevels)
	for at := child; len(entities) < maxLevels; {
		state, err := s.readState(ctx, at)
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
	return levels, nil
}

// readState is how one bucket stands by consistent reads; one that is not there
// is full. Its err is the refusal where there are no limits.
func (s *Service) readState(ctx context.Context, key keys.Bucket) (*result, error) {
	base, override := baseResource(key.Resource)
	settings, none := s.resolve(ctx, key.Namespace, key.Entity, base)
	if none != nil && !isNoLimits(none) {
		return nil, none
	}
	item, err := s.store.read(ctx, key)
	if err != nil {
		return nil, err
	}
	tree := shards.Tree{item}
	if item != nil && item.Level > 1 {
		if tree, err = s.readShards(ctx, key, max(item.Want, item.Level)); err != nil {
			return nil, err
		}
		item = tree.Find(0)
	}
	now, err := s.clock.Now()
	if err != nil {
		return nil, err
	}
	state := &result{settings: &settings, now: now}
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
			state.within(standingOf(now, tree, &settings))
		}
	}
	return state, nil
}

// inForce is the item as it counts under the settings, whoever wrote it last:
// one that is not there is full.
func inForce(now bucket.Instant, key keys.Bucket, item *table.Bucket, settings *config.Resolved) *table.Bucket {
	if item == nil {
		return fullBucket(now, key, settings)
	}
	if sync := shards.PlanSync(now, item, settings); sync != nil {
		return sync.Apply(item)
	}
	return item
}

// entityStatus is that of all buckets the entity has spent from and still has
// limits for. Resources with an item that cannot be decoded are named.
func (s *Service) entityStatus(ctx context.Context, ns, entity string) (*api.StatusReply, error) {
	found, err := s.store.bucketsOf(ctx, ns, entity)
	if err != nil {
		return nil, err
	}
	reply := &api.StatusReply{Limits: []api.LimitStatus{}}
	for _, resource := range found {
		one, err := s.bucketStatus(ctx, ns, api.StatusRequest{Entity: entity, Resource: resource})
		switch {
		case isNoLimits(err):
			continue
		case errors.Is(blamed(err, nil), errDamaged):
			s.logStore(ctx, "read the status", keys.Bucket{Namespace: ns, Entity: entity, Resource: resource}, err)
			reply.Damaged = append(reply.Damaged, resource)
			continue
		case err != nil:
			return nil, err
		}
		for _, status := range one.Limits {
			status.Resource = resource
			reply.Limits = append(reply.Limits, status)
		}
	}
	return reply, nil
}
