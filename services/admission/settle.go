package admission

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"github.com/tidegate/tidegate/pkg/api"
)

// settlement is one adjust or release. It runs to its end on this node, also when its
// caller stops waiting, because a record that is left half way keeps others waiting:
//
//	record (KV) ── decide ──▶ store the record ──▶ credits: final, given back by the next write of each shard
//	                              │                debits: one write for each shard
//	                              └──────────────▶ store what the lease holds now ──▶ reply
//
// The rules are DESIGN §22; [decide] is their pure part.
type settlement struct {
	*request
	op    settling
	token string
	lease *lease
	// stored says that the operation is final: whatever comes, it is answered as done.
	stored atomic.Bool
	// begun says that tokens may be spent or given back by now.
	begun atomic.Bool
	// unstored says that the record could not be stored so far.
	unstored atomic.Bool
	results  []*result // of each level; nil where no write brought one
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
	s.settle(ctx, r, req.Lease, settling{hash: settlementHash(r.verb, req.Deltas), deltas: req.Deltas})
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
	s.settle(ctx, r, req.Lease, settling{release: true, hash: settlementHash(r.verb, nil)})
}

// settle checks the token and answers when the settlement has ended, or when the
// answer is due.
func (s *Service) settle(ctx context.Context, r *request, token string, op settling) {
	l := s.openLease(ctx, r, token)
	if l == nil {
		return
	}
	s.epochs.Adopt(l.Epoch) // the token is signed: another node has issued it in that epoch
	op.number = l.Number
	refusal := unknownTo(l, op.deltas)
	if refusal == nil && op.gives() {
		refusal = s.expired(l)
	}
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
	st := &settlement{request: r, op: op, token: token, lease: l, results: make([]*result, len(l.Levels))}
	ended := make(chan struct{})
	s.pool.Go(func() {
		defer s.unsettled.Add(-1)
		defer close(ended)
		defer r.rescue()
		st.run()
	})
	select {
	case <-ended:
	case <-ctx.Done():
		st.overdue()
	}
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

// expired refuses a lease that can give nothing back any more.
func (s *Service) expired(l *lease) *api.Error {
	now, _ := s.clock.Now() // an unchecked clock is good enough for an hour
	switch {
	case now.Time().Sub(l.At.Time()) > s.tuning.CreditWindow:
		return api.Errorf(api.CodeExpiredLease, "lease",
			"the acquire was more than %s ago: nothing can be given back any more", s.tuning.CreditWindow)
	case l.Epoch < s.epochs.Current():
		return api.Errorf(api.CodeExpiredLease, "lease",
			"NATS lost settlements after the acquire: nothing can be given back any more")
	}
	return nil
}

// overdue answers when the answer is due and the settlement has not ended.
func (st *settlement) overdue() {
	switch {
	case st.stored.Load():
		st.respondDone(nil)
	case st.begun.Load():
		st.refuse(unavailable(errSettling))
	case st.unstored.Load():
		st.refuse(unavailable(errNotStored))
	default:
		st.refuse(asError(errLate))
	}
}

// errSettling says that the settlement goes on after its caller's time.
var errSettling = errors.New("the settlement is under way: repeat it as it is, and it counts once")

// run decides by the record until the operation has ended.
func (st *settlement) run() {
	s := st.service
	// A record that may be out of date is good enough to begin with, because it is
	// changed by compare-and-set: the one that this node stored last, or none for the
	// first settlement of a lease. It is not good enough to refuse or to wait by.
	stored, known := s.recent.Get(st.recordKey())
	known = known || st.lease.Number == 1
	for wait := time.Duration(0); ; {
		read := !known
		if read {
			var err error
			if stored, err = st.read(); errors.Is(err, errLate) {
				st.refuse(asError(err))
				return
			} else if err != nil {
				st.withoutRecords(err)
				return
			}
		}
		now, errClock := s.clock.Now()
		next := decide(st.lease, st.op, stored.record, now, s.settleTime())
		switch next.ruling {
		case rulingDone:
			st.stored.Store(true)
			st.respondDone(st.statuses(st.received))
			return
		case rulingRefuse:
			if known = false; !read {
				continue
			}
			st.refuse(next.refusal)
			return
		case rulingWait:
			if known = false; !read {
				continue
			}
			if wait = min(2*wait+minBackoff, maxSettleWait); !st.pause(wait) {
				st.refuse(asError(errLate))
				return
			}
			continue
		case rulingWrite:
		}
		if s.clock.Mono() >= st.deadline || errClock == nil && st.asker().expired(now) {
			st.refuse(asError(errLate))
			return
		}
		if st.begin(next, stored.revision) {
			return
		}
		known = false
	}
}

// recentRecords is how many lease records a node remembers as it stored them last.
const recentRecords = 8192

// maxSettleWait bounds the pause between two looks at a record that another operation
// is at.
const maxSettleWait = 100 * time.Millisecond

// settleTime is how long after the beginning of an operation its node begins writes.
func (s *Service) settleTime() time.Duration { return 2*s.tuning.StoreTimeout + recordTimeout }

// recordKey is the lease's key in the bucket of records.
func (st *settlement) recordKey() string { return st.lease.Namespace + "." + st.lease.ID }

// pause waits. It reports false when the answer is due before.
func (st *settlement) pause(wait time.Duration) bool {
	left := st.answerBy() - st.service.clock.Mono()
	timer := time.NewTimer(min(wait, max(0, left)))
	defer timer.Stop()
	select {
	case <-timer.C:
		return wait < left
	case <-st.service.abort.Done():
		return false
	}
}

// read reads the record, again and again until the answer is due. An operation that
// only spends waits half of that time: it can do without. The error is errLate where
// that is too short a time to tell whether records can be reached.
func (st *settlement) read() (recordVersion, error) {
	s := st.service
	left := st.answerBy() - s.clock.Mono()
	if !st.op.gives() {
		left /= 2
	}
	ctx, cancel := context.WithTimeout(st.about(), left)
	defer cancel()
	for {
		stored, err := s.records.read(ctx, st.recordKey())
		if err == nil && stored.record != nil && !stored.record.fits(st.lease) {
			err = errors.New("the lease's record does not fit its token")
		}
		switch {
		case err == nil:
			return stored, nil
		case ctx.Err() != nil && left < maxSettleWait:
			return stored, errLate
		case ctx.Err() != nil:
			return stored, err
		}
		if !st.pause(min(maxSettleWait, left)) {
			return stored, err
		}
	}
}

// begin stores the record that the operation begins with, then does what it says. It
// reports false where the record has changed, or was not stored and there is time left:
// then the operation decides again.
func (st *settlement) begin(next step, revision uint64) (ended bool) {
	s, began := st.service, st.service.clock.Mono()
	next.record.Nonce = s.nonces.next()
	version := recordVersion{record: &next.record}
	var epoch int64
	var err error
	st.begun.Store(true) // what the record says is done, also when the answer to its write is late
	version.revision, epoch, err = s.records.write(st.about(), st.recordKey(), &next.record, revision)
	switch {
	case errors.Is(err, errOvertaken):
		st.begun.Store(false)
		return false
	case err == nil:
	case next.credits.isZero() && !next.debits.isZero():
		st.unrecorded(next.debits)
		return true
	case errors.Is(err, errNotStored):
		st.unstored.Store(true)
		if st.begun.Store(false); st.pause(maxSettleWait) {
			return false // a busy disk, or a leader that is elected: there is time left
		}
		st.withoutRecords(err)
		return true
	default:
		if version.revision, epoch = st.insist(version.record, revision); version.revision == 0 {
			st.refuse(unavailable(errUnknownRecord))
			return true
		}
	}
	s.recent.Add(st.recordKey(), version)
	if st.op.gives() && !next.credits.isZero() && st.lease.Epoch < epoch {
		st.refuse(unavailable(errInterrupted))
		return true
	}
	st.stored.Store(next.debits.isZero())
	credited, done := st.giveBack(next.credits)
	if !next.debits.isZero() && !st.spend(version, next.debits, began+s.settleTime()) {
		return true
	}
	awaitRefunds(done, len(credited), st.answerBy()-s.clock.Mono(), func(i int, res result) {
		if res.err == nil && res.item != nil {
			st.results[credited[i]] = &res
		}
	})
	st.respondDone(st.statuses(0))
	return true
}

var (
	// errUnknownRecord says that a record was overtaken before it was known to be stored.
	errUnknownRecord = errors.New("it is unknown whether the settlement began: its credits count as spent")
	// errInterrupted says that NATS may have forgotten an earlier settlement of the lease.
	errInterrupted = errors.New("NATS was interrupted during the settlement: its credits count as spent")
)

// insist sends a write of unknown outcome again until the outcome is known. It returns
// the revision of the record, 0 where it was not stored or another operation has
// changed it since, and the epoch that holds after it.
func (st *settlement) insist(rec *record, expected uint64) (revision uint64, epoch int64) {
	s := st.service
	for wait := minBackoff; ; wait = min(2*wait, recordTimeout) {
		timer := time.NewTimer(wait)
		select {
		case <-timer.C:
		case <-s.abort.Done():
			timer.Stop()
			return 0, 0
		}
		ctx := st.about()
		revision, epoch, err := s.records.write(ctx, st.recordKey(), rec, expected)
		if err == nil {
			return revision, epoch
		}
		if !errors.Is(err, errOvertaken) {
			continue
		}
		switch stored, err := s.records.read(ctx, st.recordKey()); {
		case err != nil:
		case stored.record == nil || stored.record.Nonce != rec.Nonce:
			return 0, 0
		default: // written once more, as it is, to learn the epoch that holds after it
			expected = stored.revision
		}
	}
}

// giveBack gives final credits to their shards: their results follow, in any order, by
// index of the levels in of.
func (st *settlement) giveBack(credits tokenTable) (of []int, done <-chan refunded) {
	var refunds []subcall
	for i := range st.lease.Levels {
		amounts := credits.amounts(st.lease, i)
		if len(amounts) == 0 {
			continue
		}
		for n := range amounts {
			amounts[n].Tokens = -amounts[n].Tokens
		}
		op := operation{amounts: amounts}
		if len(refunds) == 0 {
			op.settled = 1 // counted once, whatever its levels
		}
		refunds, of = append(refunds, subcall{st.shardOf(i), op}), append(of, i)
	}
	return of, refundAll(refunds, st.request)
}
