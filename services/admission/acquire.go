package admission

import (
	"github.com/tidegate/tidegate/pkg/api"
	"github.com/tidegate/tidegate/pkg/keys"
)

// acquire hands a spend to the bucket it spends from.
func (s *Service) acquire(r *request) {
	req, err := api.DecodeAcquire(r.body, false)
	if err != nil {
		r.refuse(asError(err))
		return
	}
	key := keys.Bucket{Namespace: r.namespaceID, Entity: req.Entity, Resource: req.Resource}
	q := r.call(operation{amounts: req.Consume}, func(res result) { s.acquired(r, &req, res) })
	if !s.committer(key).enqueue(q) {
		r.refuse(overloaded())
	}
}

// acquired answers an acquire.
func (s *Service) acquired(r *request, req *api.AcquireRequest, res result) {
	switch {
	case res.err != nil:
		s.undecided(r, req, res)
	case res.verdict == verdictDeny:
		r.respondAs(outcomeDenied, encode(denied(&res, req.Consume)))
	default:
		reply, err := s.admitted(r, req, &res)
		if err != nil {
			r.refuse(asError(err))
			return
		}
		r.respond(encode(reply))
	}
}

// encode makes the body of a reply in one allocation: statuses of ordinary names
// take about 110 bytes each.
func encode(reply *api.AcquireReply) []byte {
	return reply.AppendJSON(make([]byte, 0, 64+len(reply.Lease)+160*len(reply.Limits)))
}

// undecided answers by the unavailable policy where the store is the reason.
// What is wrong with the request itself never fails open.
func (s *Service) undecided(r *request, req *api.AcquireRequest, res result) {
	refusal := asError(res.err)
	if refusal.Code != api.CodeUnavailable {
		r.refuse(refusal)
		return
	}
	policy := req.OnUnavailable
	if policy == "" && res.settings != nil {
		policy = res.settings.OnUnavailable
	}
	if policy != api.PolicyAllow {
		r.refuse(refusal)
		return
	}
	r.respondAs(outcomeDegraded, encode(&api.AcquireReply{Allowed: true, Degraded: true, Limits: []api.LimitStatus{}}))
}

// admitted is the reply to an acquire whose write is applied.
func (s *Service) admitted(r *request, req *api.AcquireRequest, res *result) (*api.AcquireReply, error) {
	reply := &api.AcquireReply{Allowed: true, Limits: res.statuses(req.Consume)}
	level := leaseLevel{
		Entity:   res.item.Key.Entity,
		Resource: res.item.Key.Resource,
		Shard:    res.item.Key.Shard,
		Count:    res.item.Level,
		Held:     make([]heldTokens, len(reply.Limits)),
	}
	for i, status := range reply.Limits {
		level.Held[i] = heldTokens{Limit: status.Name, Tokens: status.Requested}
	}
	token, err := s.keyring.signing().seal(&lease{
		ID: s.nonce(), Namespace: r.namespaceID, At: res.now, Levels: []leaseLevel{level},
	})
	if err != nil {
		return nil, err
	}
	reply.Lease = token
	return reply, nil
}

// denied is the reply to an acquire that the bucket is short of.
func denied(res *result, costs api.Amounts) *api.AcquireReply {
	statuses, wait, _ := res.verdictOf(costs)
	return &api.AcquireReply{RetryAfterMs: wait, Never: wait == neverMs, Limits: statuses}
}
