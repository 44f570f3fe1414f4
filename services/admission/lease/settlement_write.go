package lease

import (
	"context"
	"errors"
	"time"

	"github.com/tidegate/tidegate/pkg/api"
)

// Shards writes to the bucket shards that a lease was spent from, for a single
// settlement.
type Shards interface {
	// Debit writes debits, a write for each shard. No write begins later than the
	// monotonic time until. It returns when all writes have ended, with an outcome for
	// each entry.
	Debit(debits []Amounts, until time.Duration) []Outcome
	// Refund hands credits over. They are final: the next write of each shard gives them
	// back, whatever becomes of the request. await returns when all are written, or when
	// the answer is due.
	Refund(credits []Amounts) (await func())
	// Statuses returns the limits of the lease's buckets after an adjust. A bucket that
	// neither Debit nor Refund has written to is read, as it was at the monotonic time
	// since or later; if that fails, the answer goes without it.
	Statuses(since time.Duration, deltas api.Amounts) []api.LimitStatus
}

// Amounts are whole tokens of a level, by name of the limit; above 0.
type Amounts struct {
	Level int // index in Lease.Levels
	api.Amounts
}

// Outcome is the outcome of the debits of a level. If neither Late, InDebt nor Refusal is
// set, the debits of the limits in Written were applied, and debits of other limits were
// dropped, because the limits are gone.
type Outcome struct {
	Late    bool       // the time was up, and the debits were not written
	InDebt  bool       // not written: a limit cannot owe more
	Refusal *api.Error // not written, or with unknown outcome, and why
	Written []string   // names of limits
}

// byLevel lists the amounts of a table, without levels that have only zeros.
func byLevel(l *Lease, t tokenTable) (list []Amounts) {
	for i := range l.Levels {
		if amounts := t.amounts(l, i); len(amounts) > 0 {
			list = append(list, Amounts{i, amounts})
		}
	}
	return list
}

// spend writes debits and stores the tokens that the lease holds after them. A refusal
// says that the operation is not done.
func (st *Settlement) spend(ctx context.Context, version Version, debits tokenTable, until time.Duration) *api.Error {
	d := st.desk
	written, left, refusal := st.write(debits, until)
	after := version.Record.end(st.op, written, left)
	after.Nonce = d.nonce()
	revision, _, err := d.Records.Write(ctx, st.recordKey(), &after, version.Revision)
	switch {
	case errors.Is(err, ErrOvertaken):
		return conflict("another settlement of the lease overtook this one: what it spent stays spent")
	case err != nil:
		// The next operation's token says that this operation was done.
		d.log.WarnContext(ctx, "a settlement's record is not up to date: its debits cannot be given back", "error", err)
	default:
		d.recent.Add(st.recordKey(), Version{&after, revision})
	}
	if refusal == nil {
		st.stored.Store(true)
	}
	return refusal
}

// write writes debits, a write for each shard. No write begins later than until.
// It returns the debits that were certainly applied, and the debits that are left because
// their write failed, or because its outcome is unknown. Debits of limits that are gone
// are neither. The refusal says why debits are left; nil if all are written.
func (st *Settlement) write(debits tokenTable, until time.Duration) (written, left tokenTable, refusal *api.Error) {
	list := byLevel(st.Lease, debits)
	written, left = newTokenTable(st.Lease), newTokenTable(st.Lease)
	for i, o := range st.shards.Debit(list, until) {
		level := list[i].Level
		switch {
		case o.Late:
			left[level] = debits[level]
			refusal = unavailable(errSettling)
		case o.Refusal != nil:
			left[level] = debits[level]
			refusal = o.Refusal
		case o.InDebt:
			left[level] = debits[level]
			if refusal == nil {
				refusal = api.Errorf(api.CodeExceedsDebt, "deltas", "a limit of entity %s cannot owe more than it does already", st.Lease.Levels[level].Entity)
			}
		default:
			for _, limit := range o.Written {
				if n := st.Lease.Levels[level].index(limit); n >= 0 {
					written[level][n] = debits[level][n]
				}
			}
		}
	}
	return written, left, refusal
}

// unrecorded writes the debits of an operation after its record could not be stored. It
// answers with the same token: the debits cannot be given back, and a repeat counts again.
func (st *Settlement) unrecorded(debits tokenTable) answer {
	now := st.desk.clock.Mono()
	if now >= st.caller.Deadline {
		return answer{refusal: late()}
	}
	st.begun.Store(true)
	if _, _, refusal := st.write(debits, now+st.desk.settleTime()); refusal != nil {
		return answer{refusal: refusal}
	}
	return adjusted(st.token, st.statuses(0))
}

// withoutRecords goes on with a lease while its record cannot be reached. Debits count; an
// operation that gives anything back is refused as a whole.
func (st *Settlement) withoutRecords(ctx context.Context, err error) answer {
	st.desk.log.WarnContext(ctx, "a lease's record cannot be reached", "error", err)
	if st.op.gives() {
		return answer{refusal: unavailable(errors.New("the lease records cannot be reached, so nothing can be given back"))}
	}
	_, debits, refusal := distribute(st.Lease, newTokenTable(st.Lease), st.op.deltas)
	if refusal != nil {
		return answer{refusal: refusal}
	}
	return st.unrecorded(debits)
}

// done returns the answer to an operation that is done, with the token of the next
// operation.
func (st *Settlement) done(statuses []api.LimitStatus) answer {
	if st.op.release {
		return answer{reply: api.ReleaseReply{Released: true}}
	}
	now, _ := st.desk.clock.Now() // an unchecked clock is good enough for minutes
	token, err := st.desk.keys.signing(now).seal(st.Lease.next(st.op.number + 1))
	if err != nil {
		return answer{refusal: api.Errorf(api.CodeInternal, "", "an internal error; the service's log has the details")}
	}
	return adjusted(token, statuses)
}

// adjusted returns the answer to an adjust.
func adjusted(token string, statuses []api.LimitStatus) answer {
	if statuses == nil {
		statuses = []api.LimitStatus{}
	}
	return answer{reply: api.AdjustReply{Lease: token, Limits: statuses}}
}

// statuses returns the limits after an adjust; a release is answered without.
func (st *Settlement) statuses(since time.Duration) []api.LimitStatus {
	if st.op.release {
		return nil
	}
	return st.shards.Statuses(since, st.op.deltas)
}
