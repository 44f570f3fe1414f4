package lease

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tidegate/tidegate/pkg/api"
	"github.com/tidegate/tidegate/pkg/bucket"
)

// Caller says for how long the caller of a settlement waits. The moments are monotonic,
// unless stated otherwise.
type Caller struct {
	Received time.Duration
	Deadline time.Duration  // no write begins for the caller later
	AnswerBy time.Duration  // the answer leaves by then
	Expires  bucket.Instant // the deadline in the store's time, as the caller said; 0: unknown
}

// Settlement is an adjust or a release under way. It runs to its end on this node, also
// when its caller stops waiting, because a record that is left half way keeps others
// waiting:
//
//	record (KV) ── decide ──▶ store the record ──▶ credits: final, given back by the next write of each shard
//	                              │                debits: a write for each shard
//	                              └──────────────▶ store the lease's tokens ──▶ reply
//
// The rules are DESIGN §22; [decide] is their pure part.
type Settlement struct {
	Lease *Lease

	desk   *Desk
	op     Operation
	token  string
	caller Caller
	shards Shards
	leave  func() // ends the settlement's turn at the lease
	// stored says that the operation is final: from then on it is answered as done.
	stored atomic.Bool
	// begun says that tokens may be spent or given back by now.
	begun atomic.Bool
	// unstored says that the record could not be stored so far.
	unstored atomic.Bool
}

// answer is the reply to a settlement, or its refusal.
type answer struct {
	reply   any // an api.AdjustReply or an api.ReleaseReply
	refusal *api.Error
}

// Run settles the lease and returns the reply, or the refusal. ctx ends when the node
// aborts its work; it names the request in log lines.
func (st *Settlement) Run(ctx context.Context, caller Caller, shards Shards) (reply any, refusal *api.Error) {
	st.caller, st.shards = caller, shards
	a := st.run(ctx)
	return a.reply, a.refusal
}

// Overdue returns the answer to a caller that stops waiting while Run goes on.
func (st *Settlement) Overdue() (reply any, refusal *api.Error) {
	var a answer
	switch {
	case st.stored.Load():
		a = st.done(nil)
	case st.begun.Load():
		a.refusal = unavailable(errSettling)
	case st.unstored.Load():
		a.refusal = unavailable(ErrNotStored)
	default:
		a.refusal = late()
	}
	return a.reply, a.refusal
}

var (
	// ErrLate says that the time of a caller was up before anything was spent.
	ErrLate = errors.New("the caller's time was up before anything was spent")
	// errSettling says that the settlement goes on after its caller's time.
	errSettling = errors.New("the settlement is under way: repeat it as it is, and it counts once")
	// errUnknownRecord says that a record was overtaken before it was known to be stored.
	errUnknownRecord = errors.New("it is unknown whether the settlement began: its credits count as spent")
	// errInterrupted says that NATS may have forgotten an earlier settlement of the lease.
	errInterrupted = errors.New("NATS was interrupted during the settlement: its credits count as spent")
)

func unavailable(err error) *api.Error { return api.Errorf(api.CodeUnavailable, "", "%v", err) }

func late() *api.Error { return api.Errorf(api.CodeDeadlineExceeded, "", "%v", ErrLate) }

// run waits for its turn at the lease on this node and settles it.
func (st *Settlement) run(ctx context.Context) answer {
	wait := min(st.left()/2, st.desk.settleTime())
	leave, refusal := st.desk.turns.take(ctx, st.recordKey(), wait)
	if refusal != nil {
		return answer{refusal: refusal}
	}
	st.leave = sync.OnceFunc(leave)
	defer st.leave()
	return st.settle(ctx)
}

// settle decides by the record until the operation has ended.
func (st *Settlement) settle(ctx context.Context) answer {
	d := st.desk
	stored, known := st.guess()
	for wait := time.Duration(0); ; {
		read := !known
		if read {
			var err error
			if stored, err = st.read(ctx); errors.Is(err, ErrLate) {
				return answer{refusal: late()}
			} else if err != nil {
				return st.withoutRecords(ctx, err)
			}
		}
		now, errClock := d.clock.Now()
		next := decide(st.Lease, st.op, stored.Record, now, d.settleTime())
		switch next.ruling {
		case rulingDone:
			st.stored.Store(true)
			return st.done(st.statuses(st.caller.Received))
		case rulingRefuse:
			if known = false; !read {
				continue
			}
			return answer{refusal: next.refusal}
		case rulingWait:
			if known = false; !read {
				continue
			}
			if wait = min(2*wait+minPause, maxSettleWait); !st.pause(ctx, wait) {
				return answer{refusal: late()}
			}
			continue
		case rulingWrite:
		}
		if d.clock.Mono() >= st.caller.Deadline || errClock == nil && st.caller.Expires != 0 && now >= st.caller.Expires {
			return answer{refusal: late()}
		}
		if a, ended := st.begin(ctx, next, stored.Revision); ended {
			return a
		}
		known = false
	}
}

// guess returns the record to begin with, without a read: the record that this node knew
// last, or no record for the first settlement of a lease. It may be out of date, which is
// good enough to begin with, because records are changed by compare-and-set, and not good
// enough to refuse or to wait by. guess reports false if the guess is likely to be wrong.
func (st *Settlement) guess() (Version, bool) {
	if stored, ok := st.desk.recent.Get(st.recordKey()); ok {
		return stored, st.op.number <= stored.Record.Done+1
	}
	return Version{}, st.Lease.Number == 1 && st.desk.guesses.may(st.Lease.Namespace, st.desk.clock.Mono())
}

const (
	// minPause is the first pause before another attempt.
	minPause = 5 * time.Millisecond
	// maxSettleWait bounds the pause between two reads of a record that another operation
	// has begun to change.
	maxSettleWait = 100 * time.Millisecond
)

// recordKey returns the lease's key in the bucket of records.
func (st *Settlement) recordKey() string { return st.Lease.Namespace + "." + st.Lease.ID }

// left returns the time until the answer is due.
func (st *Settlement) left() time.Duration { return st.caller.AnswerBy - st.desk.clock.Mono() }

// pause waits. It reports false when the answer is due before.
func (st *Settlement) pause(ctx context.Context, wait time.Duration) bool {
	left := st.left()
	timer := time.NewTimer(min(wait, max(0, left)))
	defer timer.Stop()
	select {
	case <-timer.C:
		return wait < left
	case <-ctx.Done():
		return false
	}
}

// read reads the record, again and again until the answer is due. An operation that
// only spends waits half of that time, because it does not need the record. read fails with
// ErrLate if the time is too short to tell whether records can be reached.
func (st *Settlement) read(ctx context.Context) (Version, error) {
	left := st.left()
	if !st.op.gives() {
		left /= 2
	}
	timed, cancel := context.WithTimeout(ctx, left)
	defer cancel()
	for {
		stored, err := st.desk.Records.Read(timed, st.recordKey())
		if err == nil && stored.Record != nil && !stored.Record.fits(st.Lease) {
			err = errors.New("the lease's record does not fit its token")
		}
		switch {
		case err == nil && stored.Record != nil:
			st.desk.recent.Add(st.recordKey(), stored)
			return stored, nil
		case err == nil:
			return stored, nil
		case timed.Err() != nil && left < maxSettleWait:
			return stored, ErrLate
		case timed.Err() != nil:
			return stored, err
		}
		if !st.pause(ctx, min(maxSettleWait, left)) {
			return stored, err
		}
	}
}

// begin stores the record that the operation begins with, then carries the record out. It
// reports false if the record has changed, or was not stored and there is time left: then
// the operation decides again.
func (st *Settlement) begin(ctx context.Context, next step, revision uint64) (a answer, ended bool) {
	d, began := st.desk, st.desk.clock.Mono()
	next.record.Nonce = d.nonce()
	version := Version{Record: &next.record}
	var epoch int64
	var err error
	st.begun.Store(true) // the record may be done by, also when the answer to its write is late
	version.Revision, epoch, err = d.Records.Write(ctx, st.recordKey(), &next.record, revision)
	switch {
	case errors.Is(err, ErrOvertaken):
		d.guesses.wrong(st.Lease.Namespace, d.clock.Mono())
		st.begun.Store(false)
		return answer{}, false
	case err == nil:
	case next.credits.isZero() && !next.debits.isZero():
		return st.unrecorded(next.debits), true
	case errors.Is(err, ErrNoRoom):
		st.begun.Store(false)
		return answer{refusal: api.Errorf(api.CodeLeasesFull, "lease", "%v: nothing was given back; repeat the settlement later", err)}, true
	case errors.Is(err, ErrNotStored):
		st.unstored.Store(true)
		if st.begun.Store(false); st.pause(ctx, maxSettleWait) {
			return answer{}, false // a busy disk, or a leader that is elected: there is time left
		}
		return st.withoutRecords(ctx, err), true
	default:
		if version.Revision, epoch = st.insist(ctx, version.Record, revision); version.Revision == 0 {
			return answer{refusal: unavailable(errUnknownRecord)}, true
		}
	}
	d.recent.Add(st.recordKey(), version)
	if st.op.gives() && !next.credits.isZero() && st.Lease.Epoch < epoch {
		return answer{refusal: unavailable(errInterrupted)}, true
	}
	st.stored.Store(next.debits.isZero())
	await := st.shards.Refund(byLevel(st.Lease, next.credits))
	if !next.debits.isZero() {
		if refusal := st.spend(ctx, version, next.debits, began+d.settleTime()); refusal != nil {
			return answer{refusal: refusal}, true
		}
	}
	st.leave()
	await()
	return st.done(st.statuses(0)), true
}

// insist sends a write of unknown outcome again until the outcome is known. It returns
// the revision of the record, 0 if it was not stored or another operation has changed it
// since, and the epoch that holds after it.
func (st *Settlement) insist(ctx context.Context, rec *Record, expected uint64) (revision uint64, epoch int64) {
	records := st.desk.Records
	for wait := minPause; ; wait = min(2*wait, recordTimeout) {
		timer := time.NewTimer(wait)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return 0, 0
		}
		revision, epoch, err := records.Write(ctx, st.recordKey(), rec, expected)
		if err == nil {
			return revision, epoch
		}
		if !errors.Is(err, ErrOvertaken) {
			continue
		}
		switch stored, err := records.Read(ctx, st.recordKey()); {
		case err != nil:
		case stored.Record == nil || stored.Record.Nonce != rec.Nonce:
			return 0, 0
		default: // written again, as it is, to learn the epoch that holds after it
			expected = stored.Revision
		}
	}
}
