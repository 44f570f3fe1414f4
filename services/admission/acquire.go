package admission

import (
	"github.com/tidegate/tidegate/internal/config"
	"github.com/tidegate/tidegate/internal/table"
	"github.com/tidegate/tidegate/pkg/api"
	"github.com/tidegate/tidegate/pkg/bucket"
	"github.com/tidegate/tidegate/pkg/keys"
	"github.com/tidegate/tidegate/services/admission/lease"
)

// acquire serves an acquire of stored limits.
func (s *Service) acquire(r *request) {
	req, err := api.DecodeAcquire(r.body, false)
	if err != nil {
		r.refuse(asError(err))
		return
	}
	s.spend(r, &req, keys.Bucket{Namespace: r.namespaceID, Entity: req.Entity, Resource: req.Resource}, nil)
}

// acquireOverride serves an acquire that brings its own limits. They replace the stored
// limits of the entity; its ancestors keep theirs.
func (s *Service) acquireOverride(r *request) {
	req, err := api.DecodeAcquire(r.body, true)
	if err != nil {
		r.refuse(asError(err))
		return
	}
	given, fingerprint := config.Override(req.Limits)
	s.spend(r, &req, keys.Bucket{
		Namespace: r.namespaceID, Entity: req.Entity, Resource: keys.OverrideResource(req.Resource, fingerprint),
	}, given)
}

// spend hands an acquire to the router.
func (s *Service) spend(r *request, req *api.AcquireRequest, key keys.Bucket, given []bucket.Limit) {
	a := &acquisition{request: r, req: req}
	if known, err := s.router.refusesNew(key, r.asker()); err != nil {
		a.undecided(result{shardResult: shardResult{err: err, settings: known}})
		return
	}
	s.router.acquire(&a.spend, s.router.memberOf(key, given), req.Consume, r.asker(), a)
}

// acquisition is an acquire on its way. It turns the router's result into the reply.
type acquisition struct {
	*request
	req   *api.AcquireRequest
	spend spend // owned by the router

	// The reply that was prepared during a write.
	lease    string
	errLease error
	body     []byte
	bodyOf   *table.Bucket // the state of the shard that body shows
}

// prepare implements replier. The lease holds for any outcome of the write, the balances
// only unless another node writes too.
func (a *acquisition) prepare(res result) {
	defer a.rescue()
	if a.lease, a.errLease = a.seal(res.now, leaseLevels(&res, a.req.Consume)); a.errLease == nil {
		a.body, a.bodyOf = a.admitted(res), res.item
	}
}

// answer implements replier.
func (a *acquisition) answer(res result) {
	defer a.rescue() // the calls behind it are answered in any case
	switch {
	case res.err != nil:
		a.undecided(res)
	case a.errLease != nil:
		a.refuse(asError(a.errLease))
	case a.bodyOf == res.item:
		a.respond(a.body)
	default:
		a.respond(a.admitted(res))
	}
}

func (a *acquisition) admitted(res result) []byte {
	return encode(&api.AcquireReply{Allowed: true, Lease: a.lease, Limits: res.statuses(a.req.Consume)})
}

// admit implements replier: the lease covers all levels.
func (a *acquisition) admit(levels []*result) {
	reply := &api.AcquireReply{Allowed: true}
	held := make([]lease.Level, 0, len(levels))
	var at bucket.Instant
	for _, level := range levels {
		at = max(at, level.now)
		held = append(held, leaseLevels(level, a.req.Consume)...)
		reply.Limits = append(reply.Limits, level.statuses(a.req.Consume)...)
	}
	var err error
	if reply.Lease, err = a.seal(at, held); err != nil {
		a.refuse(asError(err))
		return
	}
	a.respond(encode(reply))
}

// deny implements replier.
func (a *acquisition) deny(statuses []api.LimitStatus, waitMs int64) {
	defer a.rescue()
	reply := &api.AcquireReply{RetryAfterMs: waitMs, Never: waitMs == neverMs, Limits: statuses}
	a.service.metrics.denied(a.req.Entity, reply)
	a.respondAs(outcomeDenied, encode(reply))
}

// undecided answers by the unavailable policy if the store is the reason. An error of the
// request itself never fails open.
func (a *acquisition) undecided(res result) {
	refusal := asError(res.err)
	if refusal.Code != api.CodeUnavailable {
		a.refuse(refusal)
		return
	}
	policy := a.req.OnUnavailable
	if policy == "" && res.settings != nil {
		policy = res.settings.OnUnavailable
	}
	if policy != api.PolicyAllow {
		a.refuse(refusal)
		return
	}
	a.respondAs(outcomeDegraded, encode(&api.AcquireReply{Allowed: true, Degraded: true, Limits: []api.LimitStatus{}}))
}

// seal makes the token of a lease over levels.
func (a *acquisition) seal(at bucket.Instant, levels []lease.Level) (string, error) {
	return a.service.leases.Issue(a.namespaceID, at, levels)
}

// encode makes the body of a reply in a single allocation: a status of an ordinary name
// takes about 110 bytes.
func encode(reply *api.AcquireReply) []byte {
	return reply.AppendJSON(make([]byte, 0, 64+len(reply.Lease)+160*len(reply.Limits)))
}
