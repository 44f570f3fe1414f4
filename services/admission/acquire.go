package admission

import (
	"github.com/tidegate/tidegate/internal/table"
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
	s.spend(&acquisition{request: r, req: &req, bucket: s.committer(key)})
}

// spend hands an acquire to the bucket, or where its entity cascades, to all
// levels of it. Which it is, the bucket's flight knows if nobody else does.
func (s *Service) spend(a *acquisition) {
	if settings := a.bucket.settings.Load(); settings != nil && parentOf(a.bucket.key.Entity, settings) != "" {
		s.cascade(a)
		return
	}
	q := a.call(operation{amounts: a.req.Consume}, a.acquired)
	q.prepare = a.prepare
	if !a.bucket.enqueue(q) {
		a.refuse(overloaded())
	}
}

// acquisition is one acquire on its way.
type acquisition struct {
	*request
	req    *api.AcquireRequest
	bucket *committer // of the acquiring entity

	// What is prepared beside a write.
	lease    string
	errLease error
	body     []byte
	bodyOf   *table.Bucket // the state of the shard that body tells
}

// acquired answers.
func (a *acquisition) acquired(res result) {
	defer a.rescue() // the calls behind it are answered all the same
	switch {
	case res.err != nil:
		a.undecided(res)
	case res.verdict == verdictMoved:
		a.service.cascade(a)
	case res.verdict == verdictDeny:
		a.deny(denied(&res, a.req.Consume))
	case a.errLease != nil:
		a.refuse(asError(a.errLease))
	case a.bodyOf == res.item:
		a.respond(a.body)
	default:
		a.respond(a.admitted(res))
	}
}

// prepare makes the answer to an acquire that is admitted, as res has it: the
// lease holds whatever the store brings, the balances only if nobody else writes.
func (a *acquisition) prepare(res result) {
	defer a.rescue()
	if a.lease, a.errLease = a.seal(res); a.errLease == nil {
		a.body, a.bodyOf = a.admitted(res), res.item
	}
}

func (a *acquisition) admitted(res result) []byte {
	return encode(&api.AcquireReply{Allowed: true, Lease: a.lease, Limits: res.statuses(a.req.Consume)})
}

// encode makes the body of a reply in one allocation: statuses of ordinary names
// take about 110 bytes each.
func encode(reply *api.AcquireReply) []byte {
	return reply.AppendJSON(make([]byte, 0, 64+len(reply.Lease)+160*len(reply.Limits)))
}

// undecided answers by the unavailable policy where the store is the reason.
// What is wrong with the request itself never fails open.
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

// seal makes the lease's token.
func (a *acquisition) seal(res result) (string, error) {
	return a.service.leases.Issue(a.namespaceID, res.now, res.leaseLevels(a.req.Consume))
}

// deny answers that the limits do not hold it.
func (a *acquisition) deny(reply *api.AcquireReply) {
	a.service.metrics.denied(a.req.Entity, reply)
	a.respondAs(outcomeDenied, encode(reply))
}

// denied is the reply to an acquire that the bucket is short of.
func denied(res *result, costs api.Amounts) *api.AcquireReply {
	statuses, wait, _ := res.verdictOf(costs)
	return &api.AcquireReply{RetryAfterMs: wait, Never: wait == neverMs, Limits: statuses}
}
