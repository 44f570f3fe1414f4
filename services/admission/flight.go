package admission

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"

	"github.com/tidegate/tidegate/internal/table"
	"github.com/tidegate/tidegate/pkg/api"
	"github.com/tidegate/tidegate/pkg/bucket"
)

const (
	// maxSettingsAge is when resolved settings are read again although no change
	// was heard of: the fallback for a broadcast that got lost.
	maxSettingsAge = time.Minute
	// refusalAge is how long it is believed that there are no limits, or not the
	// one that a request names.
	refusalAge = time.Second

	minBackoff = 5 * time.Millisecond
	maxBackoff = 200 * time.Millisecond

	// deliverApart is from how many answers on they are made beside the next
	// write instead of before it.
	deliverApart = 8
	// deliverParts is in how many parts at most.
	deliverParts = 4
)

// resolve sees to it that the settings are current. It reports false when the
// calls were answered instead.
func (c *committer) resolve(ctx context.Context, calls []*call) bool {
	settings, now := c.settings.Load(), c.node.clock.Mono()
	outdated := c.outdated.Swap(false)
	differs := c.known != nil && settings != nil &&
		c.known.Fingerprint != settings.Fingerprint && c.resolvedAt < c.learnedAt
	if settings != nil && !outdated && !differs && c.refusal == nil && now-c.resolvedAt < maxSettingsAge {
		return true
	}
	if c.refusal != nil && !outdated && now-c.resolvedAt < refusalAge {
		c.refuse(calls, c.refusal)
		return false
	}
	c.resolvedAt = now
	call, cancel := context.WithTimeout(ctx, c.node.tuning.StoreTimeout)
	defer cancel()
	resolved, err := c.node.limits.Resolve(call, c.key.Namespace, c.key.Entity, c.key.Resource)
	var refusal *api.Error
	switch {
	case err == nil:
		c.settings.Store(c.node.share(&resolved))
		c.refusal = nil
		return true
	case errors.As(err, &refusal):
		c.refusal = refusal
		c.refuse(calls, refusal)
	default:
		c.outdated.Store(true)
		c.node.logStore(ctx, "resolve limits", c.key, err)
		c.fail(calls, errSettingsGet)
	}
	return false
}

// refuse answers acquires of a bucket without limits; settlements have nothing
// left to settle.
func (c *committer) refuse(calls []*call, refusal *api.Error) {
	for _, q := range calls {
		if q.settle {
			q.answer(result{verdict: verdictDrop})
		} else {
			q.answer(result{err: refusal})
		}
	}
	c.keep(nil)
}

// mustResolveAgain marks settings as outdated that lack a limit a call names,
// once they are a second old: the limit may have been added, and the news lost.
func (c *committer) mustResolveAgain(calls []*call) bool {
	settings := c.settings.Load()
	if settings == nil || c.node.clock.Mono()-c.resolvedAt < refusalAge {
		return false
	}
	for _, q := range calls {
		if unknownLimit(settings, q.operation) != "" {
			c.outdated.Store(true)
			return true
		}
	}
	return false
}

// refuseUnknownLimits answers acquires that name a limit the bucket does not have.
func (c *committer) refuseUnknownLimits(calls []*call) []*call {
	settings := c.settings.Load()
	good := calls[:0]
	for _, q := range calls {
		if unknown := unknownLimit(settings, q.operation); unknown != "" {
			q.answer(result{err: unknownLimitError(settings, c.key, unknown)})
			continue
		}
		good = append(good, q)
	}
	c.keep(good)
	return good
}

// fail answers the calls by the unavailable policy.
func (c *committer) fail(calls []*call, err error) {
	for _, q := range calls {
		q.answer(result{err: err, settings: c.settings.Load()})
	}
	c.keep(nil)
}

// learn takes over the truth an answer of the store brought; nil means that
// there is no item.
func (c *committer) learn(item *table.Bucket, asked time.Duration) {
	c.known, c.absent = item, item == nil
	c.seenAt, c.learnedAt = asked, c.node.clock.Mono()
	c.throttles = 0
}

// read brings the truth without spending: one consistent read.
func (c *committer) read(ctx context.Context, calls []*call) {
	asked := c.node.clock.Mono()
	item, err := c.node.store.read(ctx, c.key)
	switch {
	case err == nil:
		c.learn(item, asked)
	case isThrottle(err):
		c.backOff(ctx)
	default:
		c.node.logStore(ctx, "read bucket", c.key, err)
		c.fail(calls, errStoreDown)
	}
}

// sync brings the item to the settings; whatever comes of it, the flight plans again.
func (c *committer) sync(ctx context.Context, calls []*call, now bucket.Instant, s *table.Sync) {
	s.Nonce, s.WriteUnits = c.node.nonce(), c.writeUnits()
	w := written{asked: c.node.clock.Mono(), now: now, left: calls}
	w.answer = c.node.store.update(ctx, writeSync, c.key, s.Input(c.node.table), s.Nonce)
	c.took(ctx, w)
}

// commit plans what waits and writes it. What the known state denies is
// answered without a write.
func (c *committer) commit(ctx context.Context, calls []*call, now bucket.Instant) {
	v := c.view(now, needSettings(calls))
	operations := make([]operation, len(calls))
	for i, q := range calls {
		operations[i] = q.operation
	}
	p := newPlan(v, operations)
	w := written{now: now, left: calls[:0:0]}
	for i, q := range calls {
		switch p.verdicts[i] {
		case verdictDeny, verdictDrop:
			q.answer(result{verdict: p.verdicts[i], settings: v.settings, item: v.item, now: now})
			continue
		case verdictCommit:
			w.committed = append(w.committed, q)
		case verdictWait:
		}
		w.left = append(w.left, q)
	}
	c.keep(w.left)
	if len(w.left) == 0 {
		return
	}
	nonce := c.node.nonce()
	w.asked = c.node.clock.Mono()
	switch {
	case p.commit != nil:
		p.commit.Nonce, p.commit.WriteUnits = nonce, c.writeUnits()
		w.answer = c.node.store.update(ctx, writeCommit, c.key, p.commit.Input(c.node.table), nonce)
	case p.create != nil:
		p.create.Bucket.LastWrite, p.create.Bucket.WriteUnits = nonce, c.writeUnits()
		w.answer = c.node.store.create(ctx, p.create, nonce)
	default:
		c.read(ctx, w.left)
		return
	}
	c.took(ctx, w)
}

// written is a write and what came of it.
type written struct {
	answer
	asked     time.Duration  // monotonic time at which it was sent
	now       bucket.Instant // the moment it was planned for
	left      []*call        // the whole flight
	committed []*call        // those of it that are part of the write
}

// took draws the consequences of a write.
func (c *committer) took(ctx context.Context, w written) {
	switch w.outcome {
	case outcomeApplied:
		c.owedUnits, c.unitCost = 0, w.units
		c.learn(w.item, w.asked)
		c.keep(without(w.left, w.committed))
		c.node.metrics.batch.Observe(float64(len(w.committed)))
		c.deliver(w)
	case outcomeRefused:
		cost := max(1, c.unitCost)
		c.owedUnits += cost
		c.node.metrics.refusal(writeCommit, cost)
		c.learn(w.item, w.asked)
	case outcomeThrottled:
		c.backOff(ctx)
	case outcomeFailed:
		c.node.logStore(ctx, "write", c.key, w.err)
		c.fail(w.left, errStoreDown)
	case outcomeUnknown:
		c.node.logStore(ctx, "write", c.key, w.err)
		c.known, c.absent = nil, false
		if w.seen {
			c.learn(w.item, w.asked)
		}
		c.keep(without(w.left, c.doubt(w.committed)))
	}
}

// doubt settles what a write of unknown outcome means: spent, and nobody
// admitted. Only a debit is written once more, because it must not be lost; it
// may count twice.
func (c *committer) doubt(committed []*call) (ended []*call) {
	for _, q := range committed {
		if left := q.amounts.Positive(); q.settle && len(left) > 0 && !q.repeated {
			q.amounts, q.repeated = left, true
			continue
		}
		q.answer(result{err: errUnknown, settings: c.settings.Load()})
		ended = append(ended, q)
	}
	return ended
}

// without is the calls that are not among the others, both in the same order.
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

// deliver answers the calls of an applied write. Many answers are made beside
// the next write, in parts that run side by side.
func (c *committer) deliver(w written) {
	limits, settings := len(w.item.Limits), c.settings.Load()
	later := make([]int64, (len(w.committed)+1)*limits) // row i+1: what those after call i spent
	for i := len(w.committed) - 1; i >= 0; i-- {
		for l := range limits {
			later[i*limits+l] = later[(i+1)*limits+l] + costOf(w.committed[i].amounts, w.item.Limits[l].Name)
		}
	}
	answer := func(from, to int) {
		for i := from; i < to; i++ {
			w.committed[i].answer(result{
				verdict: verdictCommit, settings: settings, item: w.item, now: w.now, later: later[(i+1)*limits : (i+2)*limits],
			})
		}
	}
	if len(w.committed) < deliverApart {
		answer(0, len(w.committed))
		return
	}
	part := max(deliverApart, (len(w.committed)+deliverParts-1)/deliverParts)
	for from := 0; from < len(w.committed); from += part {
		c.node.flights.Go(func() { answer(from, min(from+part, len(w.committed))) })
	}
}

// backOff waits before the next attempt at a throttled store, longer each time.
// The calls wait too, up to their own deadlines.
func (c *committer) backOff(ctx context.Context) {
	longest := min(maxBackoff, minBackoff<<min(c.throttles, 10))
	c.throttles++
	timer := time.NewTimer(longest/2 + rand.N(longest/2))
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C:
	}
}
