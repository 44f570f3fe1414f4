package admission

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/tidegate/tidegate/pkg/api"
	"github.com/tidegate/tidegate/pkg/keys"
	"github.com/tidegate/tidegate/services/admission/lease"
)

// adjust settles the difference between the reserved and the used amounts.
func (s *Service) adjust(ctx context.Context, r *request) {
	req, err := api.DecodeAdjust(r.body)
	switch {
	case err != nil:
		r.refuse(asError(err))
	case req.Lease == "": // admitted without the store: there is nothing to settle
		r.respondJSON(api.AdjustReply{Lease: "", Limits: []api.LimitStatus{}})
	default:
		s.settle(ctx, r, req.Lease, lease.Adjust(req.Deltas))
	}
}

// release gives back all that a lease holds.
func (s *Service) release(ctx context.Context, r *request) {
	req, err := api.DecodeRelease(r.body)
	switch {
	case err != nil:
		r.refuse(asError(err))
	case req.Lease == "":
		r.respondJSON(api.ReleaseReply{Released: true})
	default:
		s.settle(ctx, r, req.Lease, lease.Release())
	}
}

// settle checks the token and answers when the settlement has ended, or when the
// answer is due.
func (s *Service) settle(ctx context.Context, r *request, token string, op lease.Operation) {
	st, refusal := s.leases.Open(ctx, r.namespaceID, token, op)
	if refusal != nil {
		r.refuse(refusal)
		return
	}
	if s.unsettled.Add(1) > int64(s.tuning.Queue) {
		s.unsettled.Add(-1)
		s.metrics.shed[scopeNode].Inc()
		r.refuse(overloaded())
		return
	}
	ended := make(chan struct{})
	s.pool.Go(func() {
		defer s.unsettled.Add(-1)
		defer close(ended)
		defer r.rescue()
		caller := lease.Caller{Received: r.received, Deadline: r.deadline, AnswerBy: r.answerBy(), Expires: r.expires}
		r.settled(st.Run(r.about(), caller, &leaseShards{request: r, lease: st.Lease, results: make([]*result, len(st.Lease.Levels))}))
	})
	select {
	case <-ended:
	case <-ctx.Done():
		r.settled(st.Overdue())
	}
}

// settled answers with the outcome of a settlement.
func (r *request) settled(reply any, refusal *api.Error) {
	if refusal != nil {
		r.refuse(refusal)
		return
	}
	r.respondJSON(reply)
}

// leaseShards implements [lease.Shards] for a request.
type leaseShards struct {
	*request
	lease   *lease.Lease
	results []*result // of each level; nil if no write has brought a result
}

// shard returns the shard that a level was spent from.
func (ls *leaseShards) shard(level int) *member {
	l := &ls.lease.Levels[level]
	return ls.service.router.memberOf(
		keys.Bucket{Namespace: ls.lease.Namespace, Entity: l.Entity, Resource: l.Resource, Shard: l.Shard}, givenBy(l.Brought))
}

// Debit implements lease.Shards.
func (ls *leaseShards) Debit(debits []lease.Amounts, until time.Duration) []lease.Outcome {
	subcalls := make([]subcall, len(debits))
	for i, d := range debits {
		subcalls[i] = subcall{ls.shard(d.Level), operation{settle: true, amounts: d.Amounts}}
	}
	outcomes := make([]lease.Outcome, len(debits))
	whose := asker{request: ls.request, received: ls.received, deadline: until, answerBy: never}
	for i, res := range askAll(subcalls, whose) {
		switch {
		case errors.Is(res.err, errLate):
			outcomes[i].Late = true
		case res.err != nil:
			outcomes[i].Refusal = asError(res.err)
		case res.verdict == verdictDeny:
			outcomes[i].InDebt = true
		case res.verdict == verdictCommit:
			ls.results[debits[i].Level] = &res
			for n := range res.item.Limits {
				outcomes[i].Written = append(outcomes[i].Written, res.item.Limits[n].Name)
			}
		}
	}
	return outcomes
}

// Refund implements lease.Shards.
func (ls *leaseShards) Refund(credits []lease.Amounts) (await func()) {
	refunds := make([]subcall, len(credits))
	for i, c := range credits {
		op := operation{amounts: make(api.Amounts, len(c.Amounts))}
		for n, a := range c.Amounts {
			op.amounts[n] = api.Amount{Name: a.Name, Tokens: -a.Tokens}
		}
		if i == 0 {
			op.settled = 1 // a settlement is counted once, at any number of levels
		}
		refunds[i] = subcall{ls.shard(c.Level), op}
	}
	done := refundAll(refunds, ls.request)
	return func() {
		awaitRefunds(done, len(refunds), ls.answerBy()-ls.service.clock.Mono(), func(i int, res result) {
			if res.err == nil && res.item != nil {
				ls.results[credits[i].Level] = &res
			}
		})
	}
}

// Statuses implements lease.Shards.
func (ls *leaseShards) Statuses(since time.Duration, deltas api.Amounts) (statuses []api.LimitStatus) {
	told := ls.told()
	var peeks []subcall
	var of []int
	for _, i := range told {
		if ls.results[i] == nil {
			peeks, of = append(peeks, subcall{ls.shard(i).shard(0), operation{peek: true, since: since}}), append(of, i)
		}
	}
	for n, res := range askAll(peeks, ls.asker()) {
		if res.err == nil {
			ls.results[of[n]] = &res
		}
	}
	ctx, cancel := context.WithTimeout(ls.service.abort, max(0, ls.answerBy()-ls.service.clock.Mono()))
	defer cancel()
	for _, i := range told {
		if res := ls.results[i]; res != nil && res.item != nil {
			ls.service.router.wholeOf(ctx, res)
			statuses = append(statuses, res.statuses(deltas)...)
		}
	}
	return statuses
}

// told returns a level of each bucket: the first that a write has brought a result of.
func (ls *leaseShards) told() (told []int) {
	for from, to := range ls.lease.Buckets() {
		of := max(0, slices.IndexFunc(ls.results[from:to], func(r *result) bool { return r != nil }))
		told = append(told, from+of)
	}
	return told
}
