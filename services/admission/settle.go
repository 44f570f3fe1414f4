package admission

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/tidegate/tidegate/pkg/api"
	"github.com/tidegate/tidegate/pkg/keys"
)

// settlement is one adjust or release on its way.
type settlement struct {
	*request
	lease  *lease
	levels []api.Amounts // what is settled at each level of the lease
	hash   string        // of the operation, to tell a repeat from another one
	reply  func(next *lease, results []result) ([]byte, error)
}

// adjust settles the difference between what was reserved and what was used.
func (s *Service) adjust(ctx context.Context, r *request) {
	req, err := api.DecodeAdjust(r.body)
	if err != nil {
		r.refuse(asError(err))
		return
	}
	if req.Lease == "" { // admitted without the store: there is nothing to settle
		r.respondJSON(api.AdjustReply{Lease: "", Limits: []api.LimitStatus{}})
		return
	}
	l := s.openLease(ctx, r, req.Lease)
	if l == nil {
		return
	}
	st := &settlement{request: r, lease: l, hash: settlementHash(r.verb, req.Deltas), levels: make([]api.Amounts, len(l.Levels))}
	for i := range l.Levels {
		st.levels[i] = atLevel(&l.Levels[i], req.Deltas)
	}
	if refusal := checkDeltas(l, req.Deltas); refusal != nil {
		r.refuse(refusal)
		return
	}
	st.reply = func(next *lease, results []result) ([]byte, error) {
		token, err := s.keyring.signing().seal(next)
		if err != nil {
			return nil, err
		}
		return json.Marshal(api.AdjustReply{Lease: token, Limits: settledStatuses(st, results)})
	}
	s.settle(ctx, st)
}

// release gives back all that a lease holds.
func (s *Service) release(ctx context.Context, r *request) {
	req, err := api.DecodeRelease(r.body)
	if err != nil {
		r.refuse(asError(err))
		return
	}
	if req.Lease == "" {
		r.respondJSON(api.ReleaseReply{Released: true})
		return
	}
	l := s.openLease(ctx, r, req.Lease)
	if l == nil {
		return
	}
	st := &settlement{request: r, lease: l, hash: settlementHash(r.verb, nil)}
	for i := range l.Levels {
		var all api.Amounts
		for _, h := range l.Levels[i].Held {
			if h.Tokens > 0 {
				all = append(all, api.Amount{Name: h.Limit, Tokens: -h.Tokens})
			}
		}
		st.levels = append(st.levels, all)
	}
	st.reply = func(*lease, []result) ([]byte, error) { return json.Marshal(api.ReleaseReply{Released: true}) }
	s.settle(ctx, st)
}

// openLease checks a token; a refused one is answered and gives nil.
func (s *Service) openLease(ctx context.Context, r *request, token string) *lease {
	l, err := s.keyring.open(ctx, token)
	switch {
	case errors.Is(err, errForged) || (err == nil && l.Namespace != r.namespaceID):
		r.refuse(api.Errorf(api.CodeInvalidLease, "lease", "%v", errForged))
	case err != nil:
		s.log.ErrorContext(ctx, "lease signing keys cannot be read", "error", err)
		r.refuse(unavailable(errStoreDown))
	default:
		return l
	}
	return nil
}

// atLevel is the part of deltas that concerns a level: the limits it knows.
func atLevel(level *leaseLevel, deltas api.Amounts) api.Amounts {
	var part api.Amounts
	for _, d := range deltas {
		if _, ok := level.held(d.Name); ok && d.Tokens != 0 {
			part = append(part, d)
		}
	}
	return part
}

// checkDeltas refuses limits that no level knows, and credits above what is held.
func checkDeltas(l *lease, deltas api.Amounts) *api.Error {
	for _, d := range deltas {
		known := false
		for i := range l.Levels {
			held, ok := l.Levels[i].held(d.Name)
			known = known || ok
			if ok && held+d.Tokens < 0 {
				return api.Errorf(api.CodeExceedsLease, "deltas."+d.Name,
					"the lease holds %d tokens of %q and cannot give back %d", held, d.Name, -d.Tokens)
			}
		}
		if !known {
			return api.Errorf(api.CodeUnknownLimit, "deltas."+d.Name, "the lease has no limit %q", d.Name)
		}
	}
	return nil
}

// settlementHash is equal for the same operation on a lease only.
func settlementHash(verb api.Verb, deltas api.Amounts) string {
	parts := []string{string(verb)}
	for _, d := range deltas {
		parts = append(parts, d.Name+"="+strconv.FormatInt(d.Tokens, 10))
	}
	slices.Sort(parts[1:])
	sum := sha256.Sum256([]byte(strings.Join(parts, "\n")))
	return base64.RawURLEncoding.EncodeToString(sum[:12])
}

// settle claims, writes and answers. Without a claim of its own it gives
// nothing back, but still spends: in doubt, tokens are spent, not minted.
func (s *Service) settle(ctx context.Context, st *settlement) {
	if st.gives() && s.expired(st.lease) {
		st.refuse(api.Errorf(api.CodeExpiredLease, "lease",
			"the acquire was more than %s ago: nothing can be given back any more", s.tuning.CreditWindow))
		return
	}
	key := fmt.Sprintf("%s.%s.%d", st.lease.Namespace, st.lease.ID, st.lease.Sequence)
	cl := s.claims.take(ctx, key, st.hash)
	switch cl.state {
	case claimTaken:
	case claimDone:
		st.respond(cl.reply)
		return
	case claimOther:
		st.refuse(api.Errorf(api.CodeLeaseConflict, "lease",
			"the lease was settled in another way already: use the token that the adjust returned"))
		return
	case claimUnfinished, claimUnreachable:
		if !st.onlyDebits() {
			st.refuse(unclaimed(cl.state))
			return
		}
	}
	results := s.settleLevels(st)
	reply, err := st.conclude(results)
	if cl.state == claimTaken {
		s.closeClaim(ctx, cl, results, reply)
	}
	if err != nil {
		st.refuse(err)
		return
	}
	st.respond(reply)
}

func unclaimed(state claimState) *api.Error {
	if state == claimUnreachable {
		return unavailable(errors.New("the settlement claims cannot be reached, so nothing can be given back"))
	}
	return api.Errorf(api.CodeLeaseConflict, "lease", "an earlier attempt at this settlement did not finish: its tokens count as spent")
}

// closeClaim records how a claimed settlement ended.
func (s *Service) closeClaim(ctx context.Context, cl claim, results []result, reply []byte) {
	var err error
	switch {
	case reply != nil:
		err = s.claims.finish(ctx, cl, reply)
	case untouched(results):
		err = s.claims.abandon(ctx, cl)
	}
	if err != nil {
		s.log.WarnContext(ctx, "a settlement's claim stays unfinished; a repeat of it will give nothing back", "error", err)
	}
}

// untouched reports that certainly nothing was written.
func untouched(results []result) bool {
	for _, r := range results {
		switch {
		case errors.Is(r.err, errStoreDown), errors.Is(r.err, errSettingsGet), errors.Is(r.err, errLate),
			errors.Is(r.err, errClockSkewed), errors.Is(r.err, errQueueFull):
		default:
			return false
		}
	}
	return true
}

func (st *settlement) gives() bool {
	return slices.ContainsFunc(st.levels, func(level api.Amounts) bool {
		return slices.ContainsFunc(level, func(a api.Amount) bool { return a.Tokens < 0 })
	})
}

// onlyDebits takes the credits out and reports whether anything is left.
func (st *settlement) onlyDebits() bool {
	left := false
	for i := range st.levels {
		st.levels[i] = st.levels[i].Positive()
		left = left || len(st.levels[i]) > 0
	}
	return left
}

func (s *Service) expired(l *lease) bool {
	now, _ := s.clock.Now() // an unchecked clock is good enough for an hour
	return now.Time().Sub(l.At.Time()) > s.tuning.CreditWindow
}

// settleLevels writes each level at the shard that was spent and waits for all.
func (s *Service) settleLevels(st *settlement) []result {
	results := make([]result, len(st.levels))
	done := make(chan struct{}, len(st.levels))
	for i := range st.levels {
		if len(st.levels[i]) == 0 {
			done <- struct{}{}
			continue
		}
		level := &st.lease.Levels[i]
		key := keys.Bucket{Namespace: st.lease.Namespace, Entity: level.Entity, Resource: level.Resource, Shard: level.Shard}
		q := st.call(operation{settle: true, amounts: st.levels[i]}, func(r result) {
			results[i] = r
			done <- struct{}{}
		})
		if !s.committer(key).enqueue(q) {
			q.answer(result{err: errQueueFull})
		}
	}
	for range st.levels {
		<-done
	}
	return results
}

// conclude is the answer once all levels are settled.
func (st *settlement) conclude(results []result) ([]byte, *api.Error) {
	next := *st.lease
	next.Sequence++
	next.Levels = slices.Clone(st.lease.Levels)
	for i := range results {
		if err := results[i].err; err != nil {
			return nil, asError(err)
		}
		next.Levels[i] = next.Levels[i].settled(st.levels[i])
	}
	reply, err := st.reply(&next, results)
	if err != nil {
		return nil, asError(err)
	}
	return reply, nil
}

// settledStatuses lists the limits of all levels after a settlement.
func settledStatuses(st *settlement, results []result) []api.LimitStatus {
	statuses := []api.LimitStatus{}
	for i := range results {
		if r := &results[i]; r.item != nil {
			statuses = append(statuses, r.statuses(st.levels[i])...)
		}
	}
	return statuses
}
