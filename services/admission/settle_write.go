package admission

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"time"

	"github.com/tidegate/tidegate/pkg/api"
	"github.com/tidegate/tidegate/pkg/keys"
)

// shardOf returns the shard that a level of the lease was spent from.
func (st *settlement) shardOf(level int) *member {
	l := &st.lease.Levels[level]
	return st.service.router.memberOf(
		keys.Bucket{Namespace: st.lease.Namespace, Entity: l.Entity, Resource: l.Resource, Shard: l.Shard}, givenBy(l.Brought))
}

// spend writes debits and stores what the lease holds after them. It reports false
// where it has answered, because the operation is not done.
func (st *settlement) spend(version recordVersion, debits tokenTable, until time.Duration) bool {
	s := st.service
	written, left, refusal := st.write(debits, until)
	after := version.record.end(st.op, written, left)
	after.Nonce = s.nonces.next()
	revision, _, err := s.records.write(st.about(), st.recordKey(), &after, version.revision)
	switch {
	case errors.Is(err, errOvertaken):
		st.refuse(conflict("another settlement of the lease overtook this one: what it spent stays spent"))
		return false
	case err != nil:
		// The next operation's token says that this one was done.
		s.log.WarnContext(st.about(), "a settlement's record is not up to date: its debits cannot be given back", "error", err)
	default:
		s.recent.Add(st.recordKey(), recordVersion{&after, revision})
	}
	if refusal != nil {
		st.refuse(refusal)
		return false
	}
	st.stored.Store(true)
	return true
}

// write writes debits, one write for each shard, none of which begins later than
// until. It returns the debits that were certainly applied, and those that are left
// because their write failed, or because its outcome is unknown. Debits of limits that
// are gone are neither. The refusal says why debits are left; nil for none.
func (st *settlement) write(debits tokenTable, until time.Duration) (written, left tokenTable, refusal *api.Error) {
	var subcalls []subcall
	var of []int // the level of each subcall
	for i := range st.lease.Levels {
		if amounts := debits.amounts(st.lease, i); len(amounts) > 0 {
			subcalls, of = append(subcalls, subcall{st.shardOf(i), operation{settle: true, amounts: amounts}}), append(of, i)
		}
	}
	written, left = newTokenTable(st.lease), newTokenTable(st.lease)
	whose := asker{request: st.request, received: st.received, deadline: until, answerBy: never}
	for i, res := range askAll(subcalls, whose) {
		level := of[i]
		switch {
		case res.err != nil:
			left[level] = debits[level]
			refusal = unspent(res.err)
		case res.verdict == verdictDeny:
			left[level] = debits[level]
			if refusal == nil {
				refusal = api.Errorf(api.CodeExceedsDebt, "deltas", "a limit of entity %s cannot owe more than it does already", st.lease.Levels[level].Entity)
			}
		case res.verdict == verdictCommit:
			st.results[level] = &res
			for n, held := range st.lease.Levels[level].Held {
				if res.item.Find(held.Limit) != nil {
					written[level][n] = debits[level][n]
				}
			}
		}
	}
	return written, left, refusal
}

// unspent is the answer where a debit is left.
func unspent(err error) *api.Error {
	if errors.Is(err, errLate) {
		return unavailable(errSettling)
	}
	return asError(err)
}

// unrecorded writes debits of an operation whose record cannot be stored. It answers
// with the same token: nothing of them can be given back, and a repeat counts again.
func (st *settlement) unrecorded(debits tokenTable) {
	if st.service.clock.Mono() >= st.deadline {
		st.refuse(asError(errLate))
		return
	}
	st.begun.Store(true)
	_, _, refusal := st.write(debits, st.service.clock.Mono()+st.service.settleTime())
	if refusal != nil {
		st.refuse(refusal)
		return
	}
	st.answerWith(st.token, st.statuses(0))
}

// withoutRecords is for a lease whose record cannot be reached. Debits count all the
// same; an operation that gives anything back is refused as a whole.
func (st *settlement) withoutRecords(err error) {
	st.service.log.WarnContext(st.about(), "a lease's record cannot be reached", "error", err)
	if st.op.gives() {
		st.refuse(unavailable(errors.New("the lease records cannot be reached, so nothing can be given back")))
		return
	}
	_, debits, refusal := distribute(st.lease, newTokenTable(st.lease), st.op.deltas)
	if refusal != nil {
		st.refuse(refusal)
		return
	}
	st.unrecorded(debits)
}

// respondDone answers an operation that is done with the token of the next one.
func (st *settlement) respondDone(statuses []api.LimitStatus) {
	if st.op.release {
		st.respondJSON(api.ReleaseReply{Released: true})
		return
	}
	token, err := st.service.keyring.signing().seal(st.lease.next(st.op.number + 1))
	if err != nil {
		st.refuse(asError(err))
		return
	}
	st.answerWith(token, statuses)
}

func (st *settlement) answerWith(token string, statuses []api.LimitStatus) {
	if statuses == nil {
		statuses = []api.LimitStatus{}
	}
	body, err := json.Marshal(api.AdjustReply{Lease: token, Limits: statuses})
	if err != nil {
		st.refuse(asError(err))
		return
	}
	st.respond(body)
}

// statuses lists the limits of all levels after an adjust. A level that no write
// brought a result of is looked at, as it was at the monotonic time since or later;
// where that fails, the answer goes without it.
func (st *settlement) statuses(since time.Duration) (statuses []api.LimitStatus) {
	if st.op.release {
		return nil
	}
	told := st.told()
	var peeks []subcall
	var of []int
	for _, i := range told {
		if st.results[i] == nil {
			peeks, of = append(peeks, subcall{st.shardOf(i).shard(0), operation{peek: true, since: since}}), append(of, i)
		}
	}
	for n, res := range askAll(peeks, st.asker()) {
		if res.err == nil {
			st.results[of[n]] = &res
		}
	}
	ctx, cancel := context.WithTimeout(st.service.abort, max(0, st.answerBy()-st.service.clock.Mono()))
	defer cancel()
	for _, i := range told {
		if res := st.results[i]; res != nil && res.item != nil {
			st.service.router.wholeOf(ctx, res)
			statuses = append(statuses, res.statuses(st.op.deltas)...)
		}
	}
	return statuses
}

// told returns one level of each bucket: the first that a write brought a result of.
func (st *settlement) told() (told []int) {
	for from, to := range st.lease.buckets() {
		of := max(0, slices.IndexFunc(st.results[from:to], func(r *result) bool { return r != nil }))
		told = append(told, from+of)
	}
	return told
}
