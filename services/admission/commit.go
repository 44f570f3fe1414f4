package admission

import (
	"context"
	"time"

	"github.com/tidegate/tidegate/internal/config"
	"github.com/tidegate/tidegate/internal/table"
	"github.com/tidegate/tidegate/pkg/bucket"
)

// written is a write and its outcome.
type written struct {
	answer
	form      string
	asked     time.Duration  // monotonic time at which it was sent
	now       bucket.Instant // the moment it was planned for
	left      []*call        // all calls of the flight
	committed []*call        // the calls that are part of the write
	expected  *prospect      // their answers unless another node writes too; nil without such calls
}

// sync brings the item to the settings. Whatever its outcome, the flight plans again.
func (f flight) sync(ctx context.Context, calls []*call, now bucket.Instant, s *table.Sync) {
	if !f.turn.take() {
		return
	}
	s.Nonce, s.WriteUnits = f.env.nonces.next(), f.known.writeUnits()
	w := written{form: writeSync, asked: f.env.clock.Mono(), now: now, left: calls}
	within, end := f.env.trace(ctx, spanSync, f.key.Shard, calls)
	w.answer = f.env.store.update(within, writeSync, f.key, s.Input(f.env.store.table), s.Nonce)
	end(w.failure())
	f.took(ctx, w)
}

// commit plans the calls and writes the plan. Calls that the known state denies are
// answered without a write.
func (f flight) commit(ctx context.Context, calls []*call, now bucket.Instant) {
	var settings *config.Resolved
	if f.known.item == nil || needSettings(calls) {
		settings = f.settings.last()
	}
	v := f.known.view(now, f.env.clock.Mono(), f.key, settings)
	operations := make([]operation, len(calls))
	for i, q := range calls {
		operations[i] = q.operation
	}
	p := newPlan(v, operations)
	w := written{form: writeCommit, now: now, left: calls[:0:0]}
	for i, q := range calls {
		switch p.verdicts[i] {
		case verdictShow:
			q.answer(shardResult{verdict: verdictShow, settings: v.settings, item: inForce(now, f.key, v.item, v.settings), now: now})
			continue
		case verdictDeny, verdictDrop:
			if p.verdicts[i] == verdictDeny && !q.part && !q.settle {
				f.recorder.denied()
			}
			f.env.metrics.decided[decision{writeNone, q.kind()}].Inc()
			q.answer(shardResult{verdict: p.verdicts[i], settings: v.settings, item: v.item, now: now})
			continue
		case verdictCommit:
			w.committed = append(w.committed, q)
		case verdictWait, verdictMoved, verdictHot, verdictDivided:
		}
		w.left = append(w.left, q)
	}
	f.keep(w.left)
	switch {
	case len(w.left) == 0:
	case len(w.committed) == 0:
		f.read(ctx, w.left)
	case !f.turn.take(): // the next step plans again
	default:
		f.write(ctx, w, &p, v)
	}
}

// write sends the write of a plan.
func (f flight) write(ctx context.Context, w written, p *plan, v view) {
	w.expected = prepare(f.env.pool, f.delivered, w.committed, p.after, v)
	nonce := f.env.nonces.next()
	w.asked = f.env.clock.Mono()
	within, end := f.env.trace(ctx, spanCommit, f.key.Shard, w.committed)
	if p.create != nil {
		w.form = writeCreate
		p.create.Bucket.LastWrite, p.create.Bucket.WriteUnits = nonce, f.known.writeUnits()
		w.answer = f.env.store.create(within, p.create, nonce)
	} else {
		p.commit.Nonce, p.commit.WriteUnits = nonce, f.known.writeUnits()
		w.answer = f.env.store.update(within, w.form, f.key, p.commit.Input(f.env.store.table), nonce)
	}
	end(w.failure())
	w.expected.prepared.Wait() // the calls may be planned again
	f.took(ctx, w)
}

// took handles the outcome of a write.
func (f flight) took(ctx context.Context, w written) {
	switch w.outcome {
	case outcomeApplied:
		counted := f.known.owedUnits > 0
		f.known.owedUnits, f.known.unitCost = 0, w.units
		f.learn(w.item, w.asked)
		f.recorder.written(w.item, counted)
		f.keep(without(w.left, w.committed))
		if w.expected != nil {
			f.env.metrics.committed(w.form, w.committed) // before the answers, so that their callers find them counted
			f.deliver(w)
		}
	case outcomeRefused:
		cost := max(1, f.known.unitCost)
		f.known.owedUnits += cost
		f.recorder.refused(cost)
		f.env.metrics.refusal(w.form, cost)
		f.learn(w.item, w.asked)
	case outcomeThrottled:
		f.throttled(ctx, w)
	case outcomeFailed:
		f.env.logStore(about(ctx, w.left...), "write", f.key, w.err)
		f.fail(w.left, errStoreDown)
	case outcomeDamaged:
		f.env.logStore(about(ctx, w.left...), "write", f.key, w.err)
		f.known.forget()
		f.fail(w.left, errDamaged)
	case outcomeUnknown:
		f.env.logStore(about(ctx, w.left...), "write", f.key, w.err)
		f.inDoubt(ctx, w)
	}
}

// throttled handles a write that the store did not let through. Calls that may go
// elsewhere do; the others wait, up to their own deadlines. If the bucket's state is
// unknown, the flight reads it: another shard may have room.
func (f flight) throttled(ctx context.Context, w written) {
	calls := w.left
	if isHot(w.err) {
		f.recorder.throttled(max(1, f.known.unitCost), dearest(calls))
		stay := calls[:0:0]
		for _, q := range calls {
			if q.elsewhere {
				q.answer(shardResult{verdict: verdictHot})
				continue
			}
			stay = append(stay, q)
		}
		f.keep(stay)
		calls = stay
	}
	if stale := f.known.seenAt == 0 || w.asked-f.known.seenAt > maxDenialAge; stale && f.known.item == nil && len(calls) > 0 {
		f.read(ctx, calls)
	}
	f.throttles.rest(ctx, &f.turn)
}

// inDoubt handles a write of unknown outcome: its tokens count as spent, and no acquire is
// admitted. Only a debit is written again, because it must not be lost; it may count twice.
func (f flight) inDoubt(ctx context.Context, w written) {
	f.known.forget()
	failures := f.throttles
	if w.seen {
		f.learn(w.item, w.asked)
	}
	if len(w.committed) == 0 { // a sync: it answers no call, and is tried again
		f.throttles = failures
		f.throttles.rest(ctx, &f.turn)
	}
	var ended []*call
	for _, q := range w.committed {
		if q.settle && !q.refund && !q.repeated {
			q.repeated = true
			continue
		}
		if q.kind() == kindAcquire {
			f.env.metrics.abandoned.Inc()
		}
		q.answer(shardResult{err: errUnknown, settings: f.settings.last()})
		ended = append(ended, q)
	}
	f.keep(without(w.left, ended))
}

// dearest returns the largest cost of the calls by limit, in whole tokens.
func dearest(calls []*call) map[string]int64 {
	costs := make(map[string]int64)
	for _, q := range calls {
		for _, a := range q.amounts {
			costs[a.Name] = max(costs[a.Name], a.Tokens)
		}
	}
	return costs
}
