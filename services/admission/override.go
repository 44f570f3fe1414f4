package admission

import (
	"context"
	"errors"

	"github.com/tidegate/tidegate/internal/config"
	"github.com/tidegate/tidegate/internal/table"
	"github.com/tidegate/tidegate/pkg/api"
	"github.com/tidegate/tidegate/pkg/bucket"
	"github.com/tidegate/tidegate/pkg/keys"
	"github.com/tidegate/tidegate/services/admission/lease"
)

// acquireOverride hands a spend to the bucket of the limits that the request
// brings. They replace the stored ones of the entity; ancestors keep theirs.
func (s *Service) acquireOverride(r *request) {
	req, err := api.DecodeAcquire(r.body, true)
	if err != nil {
		r.refuse(asError(err))
		return
	}
	given, fingerprint := config.Override(req.Limits)
	c := s.committer(keys.Bucket{
		Namespace: r.namespaceID, Entity: req.Entity, Resource: keys.OverrideResource(req.Resource, fingerprint),
	})
	c.give(given)
	s.spend(&acquisition{request: r, req: &req, bucket: c})
}

// give tells a bucket the limits that its requests bring. They are in its name,
// so that they are the same each time.
func (c *committer) give(given []bucket.Limit) {
	if c.given.Load() == nil {
		c.given.Store(&given)
		c.outdated.Store(true)
	}
}

// baseResource is the resource that users call a bucket's, and whether the
// bucket is one of requests that bring their own limits.
func baseResource(resource string) (base string, override bool) {
	if base, _, ok := keys.ParseOverride(resource); ok {
		return base, true
	}
	return resource, false
}

// lookUp resolves the settings of the bucket. Limits that requests bring take
// the place of the stored ones, of which there need not be any.
func (c *committer) lookUp(ctx context.Context) (config.Resolved, error) {
	base, override := baseResource(c.key.Resource)
	resolved, err := c.node.limits.Resolve(ctx, c.key.Namespace, c.key.Entity, base)
	if !override {
		return resolved, err
	}
	var refusal *api.Error
	if err != nil && !errors.As(err, &refusal) {
		return resolved, err
	}
	given := c.given.Load()
	if given == nil {
		return resolved.With(nil), errNotBrought()
	}
	return resolved.With(*given), nil
}

// errNotBrought is for an override bucket whose limits nobody knows any more.
func errNotBrought() *api.Error {
	return api.Errorf(api.CodeNoLimits, "", "the limits that the request brought are not remembered any more")
}

// broughtTo is what a lease remembers of the limits of an override bucket.
func broughtTo(item *table.Bucket) []lease.Limit {
	brought := make([]lease.Limit, len(item.Limits))
	for i := range item.Limits {
		l := &item.Limits[i]
		brought[i] = lease.Limit{Name: l.Name, Capacity: l.Capacity, Refill: l.Refill, Period: l.Period}
	}
	return brought
}
