package admission

import (
	"context"
	"errors"

	"github.com/tidegate/tidegate/pkg/api"
	"github.com/tidegate/tidegate/pkg/keys"
)

// status answers how limits stand, from consistent reads, and spends nothing.
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

// bucketStatus returns the status of a bucket and of the ancestors' buckets that an
// acquire spends from as well.
func (s *Service) bucketStatus(ctx context.Context, ns string, req api.StatusRequest) (*api.StatusReply, error) {
	levels, err := s.router.levelsOf(ctx, keys.Bucket{Namespace: ns, Entity: req.Entity, Resource: req.Resource}, req.Consume)
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
func (s *Service) entityStatus(ctx context.Context, ns, entity string) (*api.StatusReply, error) {
	found, err := s.store.bucketsOf(ctx, ns, entity)
	if err != nil {
		return nil, err
	}
	reply := &api.StatusReply{Limits: []api.LimitStatus{}}
	for _, resource := range found {
		of, err := s.bucketStatus(ctx, ns, api.StatusRequest{Entity: entity, Resource: resource})
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
		for _, status := range of.Limits {
			status.Resource = resource
			reply.Limits = append(reply.Limits, status)
		}
	}
	return reply, nil
}
