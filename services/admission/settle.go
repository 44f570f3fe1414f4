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

	"github.com/tidegate/tidegate/internal/storeclock"
	"github.com/tidegate/tidegate/pkg/api"
	"github.com/tidegate/tidegate/pkg/keys"
)

// settlement is one adjust or release on its way.
type settlement struct {
	*request
	lease  *lease
	levels []api.Amounts // what is settled at each level of the lease
	hash   string        // of the operation, to tell a repeat from another one
	tells  bool          // the answer lists the limits of all levels
	// unclaimed says that the lease's token may be settled another time, and give
	// back what it holds.
	unclaimed bool
	reply     func(next *lease, results []result) ([]byte, error)
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
	st := &settlement{request: r, lease: l, hash: settlementHash(r.verb, req.Deltas), tells: true, levels: distribute(l, req.Deltas)}
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
		st.levels = append(st.levels, l.Levels[i].all())
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

// distribute is the part of deltas that concerns each level: the limits it knows.
// Where an acquire was gathered from several shards of a bucket, a debit goes to
// the first of them, and a credit to where its tokens came from.
func distribute(l *lease, deltas api.Amounts) []api.Amounts {
	parts := make([]api.Amounts, len(l.Levels))
	for from, to := range l.buckets() {
		for _, d := range deltas {
			left := d.Tokens
			for i := from; i < to && left != 0; i++ {
				held, ok := l.Levels[i].held(d.Name)
				if !ok {
					break
				}
				part := left
				if i < to-1 && part < 0 {
					part = max(part, -held)
				}
				if left -= part; part != 0 {
					parts[i] = append(parts[i], api.Amount{Name: d.Name, Tokens: part})
				}
			}
		}
	}
	return parts
}

// checkDeltas refuses limits that no level knows, and credits above what is held.
func checkDeltas(l *lease, deltas api.Amounts) *api.Error {
	for _, d := range deltas {
		known := false
		for from, to := range l.buckets() {
			held, ok := heldBy(l.Levels[from:to], d.Name)
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
		st.unclaimed = cl.state == claimUnreachable
	}
	results := s.settleLevels(st)
	reply, err := st.conclude(results)
	if cl.state == claimTaken {
		s.closeClaim(ctx, cl, st.written(results), reply)
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

// closeClaim records how a claimed settlement ended. It takes none of the
// caller's time beyond ctx, but is done all the same, so that a repeat by a caller
// who gave up is told the truth.
func (s *Service) closeClaim(ctx context.Context, cl claim, results []result, reply []byte) {
	closed := make(chan struct{})
	s.flights.Go(func() {
		defer close(closed)
		s.recordEnd(context.WithoutCancel(ctx), cl, results, reply)
	})
	select {
	case <-closed:
	case <-ctx.Done():
	}
}

func (s *Service) recordEnd(ctx context.Context, cl claim, results []result, reply []byte) {
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

// written are the results of the levels that have a part in the settlement.
func (st *settlement) written(results []result) []result {
	var written []result
	for i, r := range results {
		if len(st.levels[i]) > 0 {
			written = append(written, r)
		}
	}
	return written
}

// untouched reports that certainly nothing was written.
func untouched(results []result) bool {
	for _, r := range results {
		switch {
		case errors.Is(r.err, errStoreDown), errors.Is(r.err, errSettingsGet), errors.Is(r.err, errLate),
			errors.Is(r.err, storeclock.ErrSkewed), errors.Is(r.err, storeclock.ErrUnchecked), errors.Is(r.err, errQueueFull):
		default:
			return false
		}
	}
	return true
}

func (st *settlement) gives() bool {
	return slices.ContainsFunc(st.levels, credits)
}

// credits reports whether amounts give anything back.
func credits(amounts api.Amounts) bool {
	return slices.ContainsFunc(amounts, func(a api.Amount) bool { return a.Tokens < 0 })
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
// A level without a part in the settlement is looked at where the answer tells
// of it; what comes of that is no concern of the settlement.
func (s *Service) settleLevels(st *settlement) []result {
	var errands []errand
	var of []int // the level of each errand
	told := st.told()
	for i, level := range st.lease.Levels {
		op, shard := operation{settle: true, amounts: st.levels[i]}, level.Shard
		if len(op.amounts) == 0 {
			if !slices.Contains(told, i) {
				continue
			}
			op, shard = operation{look: true}, 0 // which asks the others where there are any
		}
		key := keys.Bucket{Namespace: st.lease.Namespace, Entity: level.Entity, Resource: level.Resource, Shard: shard}
		c := s.committer(key)
		c.remember(level.Brought)
		errands, of = append(errands, errand{c, op}), append(of, i)
	}
	results := make([]result, len(st.levels))
	for i, res := range together(errands, st.asker()) {
		if errands[i].look {
			res.err = nil
		}
		results[of[i]] = res
	}
	for _, i := range told {
		s.widen(st, &results[i])
	}
	return results
}

// told are the levels that the answer tells of: one for each bucket, whichever of
// its shards are settled.
func (st *settlement) told() (told []int) {
	if !st.tells {
		return nil
	}
	for from, to := range st.lease.buckets() {
		one := from
		for i := from; i < to; i++ {
			if len(st.levels[i]) > 0 {
				one = i
				break
			}
		}
		told = append(told, one)
	}
	return told
}

// widen adds the other shards to the one that was settled. Where they cannot be
// read, the answer tells of the one.
func (s *Service) widen(st *settlement, res *result) {
	if res.item == nil || res.item.Level == 1 || res.others != nil {
		return
	}
	ctx, cancel := context.WithTimeout(s.abort, max(0, st.answerBy()-s.clock.Mono()))
	defer cancel()
	key := res.item.Key
	key.Shard = 0
	tree, err := s.committer(key).tree(ctx)
	if err != nil {
		return
	}
	if res.settings != nil {
		tree = standingOf(res.now, tree, res.settings)
	}
	res.within(tree)
}

// conclude is the answer once all levels are settled. The lease that follows an
// unclaimed settlement gives back what that one spent, and no more: the lease
// before it, whose token is as good as ever, gives back the rest.
func (st *settlement) conclude(results []result) ([]byte, *api.Error) {
	next := *st.lease
	next.Sequence++
	next.Levels = slices.Clone(st.lease.Levels)
	for i := range results {
		if err := results[i].err; err != nil {
			return nil, asError(err)
		}
		level := next.Levels[i]
		if st.unclaimed {
			level = level.settled(level.all())
		}
		next.Levels[i] = level.settled(st.levels[i])
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
	for _, i := range st.told() {
		if r := &results[i]; r.item != nil {
			statuses = append(statuses, r.statuses(st.settledAt(i))...)
		}
	}
	return statuses
}

// settledAt is what is settled at all shards of a level's bucket.
func (st *settlement) settledAt(level int) api.Amounts {
	var sum api.Amounts
	for from, to := range st.lease.buckets() {
		if level < from || level >= to {
			continue
		}
		for _, part := range st.levels[from:to] {
			for _, a := range part {
				before, _ := sum.Get(a.Name)
				sum = append(slices.DeleteFunc(sum, func(b api.Amount) bool { return b.Name == a.Name }), api.Amount{Name: a.Name, Tokens: before + a.Tokens})
			}
		}
	}
	return sum
}
