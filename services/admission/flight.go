package admission

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/tidegate/tidegate/internal/config"
	"github.com/tidegate/tidegate/internal/jitter"
	"github.com/tidegate/tidegate/internal/shards"
	"github.com/tidegate/tidegate/internal/table"
	"github.com/tidegate/tidegate/pkg/bucket"
	"github.com/tidegate/tidegate/pkg/keys"
)

const (
	minBackoff = 5 * time.Millisecond
	maxBackoff = 200 * time.Millisecond
)

// flight is a writer at work: a single goroutine that decides the waiting calls, step by
// step, until there are no more. Only a flight touches the fields that are owned by the
// flight.
type flight struct{ *writer }

// fly commits until no calls wait.
func (f flight) fly() {
	defer f.land()
	for f.take() {
		f.step(f.env.abort)
		f.recorder.learned()
		if f.turn.parked {
			park(f)
			return
		}
		f.turn.end()
	}
}

// land answers the calls that a panic left behind: a panic must neither stop other
// buckets nor leave callers waiting.
func (f flight) land() {
	cause := recover()
	if cause == nil {
		return
	}
	f.turn.end()
	left := f.empty()
	f.env.logPanic(about(f.env.abort, left...), cause)
	f.known.forget()
	for _, q := range left {
		q.answer(shardResult{err: errInternal})
	}
}

// undecided returns the calls of the flight that still wait, and answers the calls that
// are too late to spend.
func (f flight) undecided() []*call {
	now := f.env.clock.Mono()
	stored, errClock := f.env.clock.Now()
	all := f.inFlight()
	calls := make([]*call, 0, len(all))
	for _, q := range all {
		switch {
		case q.answered.Load():
		case q.deadline <= now, errClock == nil && q.expired(stored):
			q.answer(shardResult{err: q.cause(errLate)})
		default:
			calls = append(calls, q)
		}
	}
	f.keep(calls)
	return calls
}

// step takes the next step of the flight: it resolves settings, reads, syncs or writes.
// Each step ends by deciding calls or by knowing more.
func (f flight) step(ctx context.Context) {
	calls := f.undecided()
	if len(calls) == 0 {
		return
	}
	f.known.adopt(f.env.clock.Mono())
	if f.key.Shard > 0 && f.known.item == nil {
		f.find(ctx, calls)
		return
	}
	if f.known.mustPeek(calls) {
		f.peek(ctx, calls)
		return
	}
	if f.known.absent {
		rest := dropRefunds(calls)
		if len(rest) < len(calls) {
			f.keep(rest)
		}
		if calls = rest; len(calls) == 0 {
			return
		}
	}
	if needSettings(calls) || f.known.absent {
		if !f.resolve(ctx, calls) || f.settings.doubtFor(calls) {
			return
		}
		if calls = f.sift(calls); len(calls) == 0 {
			return
		}
	}
	now, err := f.env.clock.Now()
	if err != nil {
		f.checkClock(ctx, calls)
		return
	}
	if f.known.item != nil && spends(calls) {
		if sync := shards.PlanSync(now, f.known.item, f.settings.last()); sync != nil {
			f.sync(ctx, calls, now, sync)
			return
		}
	}
	f.commit(ctx, calls, now)
}

// find reads a shard other than 0, which no spend creates. If the shard is gone, all
// calls are answered verdictMoved: its parent has taken it over.
func (f flight) find(ctx context.Context, calls []*call) {
	late := slices.ContainsFunc(calls, func(q *call) bool { return q.received > f.known.seenAt })
	if !f.known.absent || late {
		f.peek(ctx, calls)
		return
	}
	f.keep(nil)
	for _, q := range calls {
		q.answer(shardResult{verdict: verdictMoved})
	}
}

// peek reads the item for the calls of the flight. The next step decides them by the state
// that the read brings, before calls board that would need a newer read: such calls could
// follow without end.
func (f flight) peek(ctx context.Context, calls []*call) {
	f.peeking = f.turn.take()
	f.read(ctx, calls)
}

// checkClock asks the store, because the Date of a reply tells the time, and fails the
// calls if the time stays unknown. A wrong Date must not keep the node from asking for a
// right Date, and the node must not ask a store that sends no Date without end.
func (f flight) checkClock(ctx context.Context, calls []*call) {
	f.read(ctx, calls)
	if _, err := f.env.clock.Now(); err != nil && f.throttles == 0 && !f.turn.parked {
		f.fail(calls, err)
	}
}

// resolve makes sure that the settings may be used. It reports false if the calls were
// answered instead, or have to wait for another attempt.
func (f flight) resolve(ctx context.Context, calls []*call) bool {
	g := &f.settings
	g.isOutdated()
	governed := g.takeRenewal()
	switch g.needed(&f.known) {
	case needCertain:
		var ok bool
		if governed, ok = f.resolveNow(ctx, calls); !ok {
			return false
		}
	case needAsk:
		if !f.turn.take() {
			return false
		}
		governed = g.askAgain(calls) || governed
	case needInBackground:
		g.renewInBackground()
	case needNone:
	}
	if g.refusal == nil {
		return true
	}
	if governed {
		f.known.seen.Store(&snapshot{unread: true, at: g.resolvedAt})
	}
	f.keep(refuseAll(calls, &f.known, f.key.Entity, g))
	return false
}

// resolveNow reads the settings, and lets no call go by others. It reports not ok if they
// were not read: then the calls wait for the next attempt, or are answered.
func (f flight) resolveNow(ctx context.Context, calls []*call) (governed, ok bool) {
	if !f.turn.take() {
		return false, false
	}
	within, end := f.env.trace(ctx, spanResolve, f.key.Shard, calls)
	governed, err := f.settings.read(within, int(f.throttles))
	end(err)
	switch {
	case governed:
		return true, true
	case isThrottle(err) || f.throttles+1 < readAttempts:
		f.throttles.rest(ctx, &f.turn)
		return false, false
	}
	f.throttles = 0
	f.env.logStore(about(ctx, calls...), "resolve limits", f.key, err)
	f.fail(calls, blamed(err, errSettingsGet))
	return false, false
}

// sift answers acquires that were made for other settings, that name a limit which the
// bucket lacks, or that concern a bucket of several shards. It returns the other calls.
func (f flight) sift(calls []*call) []*call {
	settings := f.settings.last()
	good := make([]*call, 0, len(calls)) // the alarm reads calls
	for _, q := range calls {
		if !q.settle && !q.part && f.known.item != nil && f.known.item.Level > 1 {
			q.answer(shardResult{verdict: verdictDivided})
			continue
		}
		if !isMadeFor(&q.operation, f.key.Entity, settings) {
			q.answer(shardResult{verdict: verdictMoved, settings: settings})
			continue
		}
		switch unknown := unknownLimit(settings, q.operation); {
		case unknown == "":
			good = append(good, q)
		case f.settings.isUnsure():
			q.answer(shardResult{err: errSettingsGet, settings: settings})
		case q.peek:
			good = append(good, q)
		default:
			q.answer(shardResult{err: unknownLimitError(settings, f.key, unknown)})
		}
	}
	f.keep(good)
	return good
}

// fail answers the calls with an error. Refunds are tried again, unless the item cannot
// be decoded: then they may have been written to it.
func (f flight) fail(calls []*call, err error) {
	for _, q := range calls {
		if q.refund && !errors.Is(err, errDamaged) {
			f.postpone(q)
			continue
		}
		q.answer(shardResult{err: q.cause(err), settings: f.settings.last()})
	}
	f.keep(nil)
}

// learn takes over the state that an answer of the store brought; nil stands for no item.
func (f flight) learn(item *table.Bucket, asked time.Duration) {
	f.known.learn(item, asked, f.env.clock.Mono())
	f.throttles = 0
}

// read learns the item's state by a consistent read.
func (f flight) read(ctx context.Context, calls []*call) {
	if !f.turn.take() {
		return
	}
	asked := f.env.clock.Mono()
	within, end := f.env.trace(ctx, spanRead, f.key.Shard, calls)
	item, err := f.env.store.read(within, f.key)
	end(err)
	switch {
	case err == nil:
		f.learn(item, asked)
	case isThrottle(err):
		f.throttles.rest(ctx, &f.turn)
	default:
		f.env.logStore(about(ctx, calls...), "read bucket", f.key, err)
		f.fail(calls, blamed(err, errStoreDown))
	}
}

// backoff counts attempts in a row that a throttled store has refused.
type backoff int

// wait waits before the next attempt, longer each time. The calls wait too, up to their
// own deadlines.
func (b *backoff) wait(ctx context.Context) {
	longest := min(maxBackoff, minBackoff<<min(*b, 10))
	*b++
	timer := time.NewTimer(longest/2 + jitter.N(longest/2))
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C:
	}
}

// refuseAll answers acquires of a bucket without limits, and returns the settlements that
// may concern limits which the item still has.
func refuseAll(calls []*call, k *knowledge, entity string, g *governance) []*call {
	settings, settlements := g.last(), calls[:0:0]
	for _, q := range calls {
		switch {
		case q.settle && k.absent:
			q.answer(shardResult{verdict: verdictDrop})
		case q.settle:
			settlements = append(settlements, q)
		case !isMadeFor(&q.operation, entity, settings):
			q.answer(shardResult{verdict: verdictMoved, settings: settings})
		default:
			q.answer(shardResult{err: g.refusal, settings: settings})
		}
	}
	return settlements
}

// dropRefunds answers the refunds of a shard that does not exist, and returns the other
// calls: a bucket without an item is full.
func dropRefunds(calls []*call) []*call {
	if !slices.ContainsFunc(calls, func(q *call) bool { return q.refund }) {
		return calls
	}
	rest := make([]*call, 0, len(calls))
	for _, q := range calls {
		if q.refund {
			q.answer(shardResult{verdict: verdictDrop})
			continue
		}
		rest = append(rest, q)
	}
	return rest
}

// needSettings reports whether an acquire or a peek is among the calls.
func needSettings(calls []*call) bool {
	return slices.ContainsFunc(calls, func(q *call) bool { return !q.settle })
}

// spends reports whether an acquire is among the calls, or a peek that syncs.
func spends(calls []*call) bool {
	return slices.ContainsFunc(calls, func(q *call) bool { return !q.settle && (!q.peek || q.sync) })
}

// without returns the calls that are not among the others, both in the same order.
func without(calls, others []*call) []*call {
	rest := calls[:0:0]
	for _, q := range calls {
		if len(others) > 0 && others[0] == q {
			others = others[1:]
			continue
		}
		rest = append(rest, q)
	}
	return rest
}

// inForce returns the item as it counts under the settings, whatever settings it was
// last written under. A missing item is full.
func inForce(now bucket.Instant, key keys.Bucket, item *table.Bucket, settings *config.Resolved) *table.Bucket {
	if item == nil {
		return fullBucket(now, key, settings)
	}
	if sync := shards.PlanSync(now, item, settings); sync != nil {
		return sync.Apply(item)
	}
	return item
}
