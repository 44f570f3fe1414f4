package admission

import (
	"context"

	"github.com/tidegate/tidegate/pkg/api"
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

// bucketStatus is one bucket's; one that is not there is full.
func (s *Service) bucketStatus(ctx context.Context, ns string, req api.StatusRequest) (*api.StatusReply, error) {
	key := keys.Bucket{Namespace: ns, Entity: req.Entity, Resource: req.Resource}
	settings, err := s.limits.Resolve(ctx, ns, req.Entity, req.Resource)
	if err != nil {
		return nil, err
	}
	if name := unknownLimit(&settings, operation{amounts: req.Consume}); name != "" {
		return nil, unknownLimitError(&settings, key, name)
	}
	item, err := s.store.read(ctx, key)
	if err != nil {
		return nil, err
	}
	now, err := s.clock.Now()
	if err != nil {
		return nil, err
	}
	if item == nil {
		item = fullBucket(now, key, &settings)
	} else if sync := newSync(now, item, &settings); sync != nil {
		item = sync.Apply(item)
	}
	res := result{settings: &settings, item: item, now: now}
	statuses, wait, allowed := res.verdictOf(req.Consume)
	if len(req.Consume) == 0 {
		return &api.StatusReply{Limits: res.statuses(nil)}, nil
	}
	return &api.StatusReply{Allowed: &allowed, RetryAfterMs: wait, Never: wait == neverMs, Limits: statuses}, nil
}

// entityStatus is that of all buckets the entity has spent from.
func (s *Service) entityStatus(ctx context.Context, ns, entity string) (*api.StatusReply, error) {
	found, err := s.store.bucketsOf(ctx, ns, entity)
	if err != nil {
		return nil, err
	}
	reply := &api.StatusReply{Limits: []api.LimitStatus{}}
	for _, resource := range found {
		one, err := s.bucketStatus(ctx, ns, api.StatusRequest{Entity: entity, Resource: resource})
		if err != nil {
			return nil, err
		}
		for _, status := range one.Limits {
			status.Resource = resource
			reply.Limits = append(reply.Limits, status)
		}
	}
	return reply, nil
}
