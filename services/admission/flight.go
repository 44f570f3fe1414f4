package admission

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"

	"github.com/tidegate/tidegate/internal/table"
	"github.com/tidegate/tidegate/pkg/bucket"
)

const (
	minBackoff = 5 * time.Millisecond
	maxBackoff = 200 * time.Millisecond
)

// sift answers acquires that were made for other settings, or name a limit the
// bucket does not have. What is no matter of this shard alone, because the bucket
// turns out to have others, it hands over.
func (c *committer) sift(calls []*call) []*call {
	settings := c.settings.Load()
	good := make([]*call, 0, len(calls)) // the alarm reads calls
	for _, q := range calls {
		if !q.settle && !q.part && c.known != nil && c.known.Level > 1 {
			c.node.spread(c, q)
			continue
		}
		if !c.suits(q, settings) {
			q.answer(result{verdict: verdictMoved, settings: settings})
			continue
		}
		switch unknown := unknownLimit(settings, q.operation); {
		case unknown == "":
			good = append(good, q)
		case c.unsure():
			q.answer(result{err: errSettingsGet, settings: settings})
		case q.look:
			good = append(good, q)
		default:
			q.answer(result{err: unknownLimitError(settings, c.key, unknown)})
		}
	}
	c.keep(good)
	return good
}

// fail answers the calls by the unavailable policy. Refunds are tried again, but not
// those of an item that cannot be decoded: they may have been written to it.
func (c *committer) fail(calls []*call, err error) {
	for _, q := range calls {
		if q.refund && !errors.Is(err, errDamaged) {
			c.postpone(q)
			continue
		}
		q.answer(result{err: q.cause(err), settings: c.settings.Load()})
	}
	c.keep(nil)
}

// learn takes over the truth an answer of the store brought; nil means that
// there is no item.
func (c *committer) learn(item *table.Bucket, asked time.Duration) {
	c.known, c.absent = item, item == nil
	c.seenAt, c.learnedAt = asked, c.node.clock.Mono()
	c.seen.Store(&sighting{item: item, at: asked})
	c.throttles = 0
}

// adopt takes over what others have seen of the shard since the flight did.
func (c *committer) adopt() {
	if seen := c.seen.Load(); seen != nil && !seen.unread && seen.at > c.seenAt {
		c.known, c.absent = seen.item, seen.item == nil
		c.seenAt, c.learnedAt = seen.at, c.node.clock.Mono()
	}
}

// offer is for who has seen the shard otherwise than by its flight.
func (c *committer) offer(item *table.Bucket, asked time.Duration) {
	before := c.seen.Load()
	if before != nil && (before.unread || before.at >= asked) {
		return
	}
	c.seen.CompareAndSwap(before, &sighting{item: item, at: asked})
}

// read brings the truth without spending: one consistent read.
func (c *committer) read(ctx context.Context, calls []*call) {
	asked := c.node.clock.Mono()
	within, end := c.trace(ctx, spanRead, calls)
	item, err := c.node.store.read(within, c.key)
	end(err)
	switch {
	case err == nil:
		c.learn(item, asked)
	case isThrottle(err):
		c.backOff(ctx)
	default:
		c.node.logStore(about(ctx, calls...), "read bucket", c.key, err)
		c.fail(calls, blamed(err, errStoreDown))
	}
}

// sync brings the item to the settings; whatever comes of it, the flight plans again.
func (c *committer) sync(ctx context.Context, calls []*call, now bucket.Instant, s *table.Sync) {
	s.Nonce, s.WriteUnits = c.node.nonce(), c.writeUnits()
	w := written{form: writeSync, asked: c.node.clock.Mono(), now: now, left: calls}
	within, end := c.trace(ctx, spanSync, calls)
	w.answer = c.node.store.update(within, writeSync, c.key, s.Input(c.node.table), s.Nonce)
	end(w.failure())
	c.took(ctx, w)
}

// commit plans what waits and writes it. What the known state denies is
// answered without a write.
func (c *committer) commit(ctx context.Context, calls []*call, now bucket.Instant) {
	v := c.view(now, calls)
	operations := make([]operation, len(calls))
	for i, q := range calls {
		operations[i] = q.operation
	}
	p := newPlan(v, operations)
	w := written{form: writeCommit, now: now, left: calls[:0:0]}
	for i, q := range calls {
		switch p.verdicts[i] {
		case verdictShow:
			q.answer(result{verdict: verdictShow, settings: v.settings, item: inForce(now, c.key, v.item, v.settings), now: now})
			continue
		case verdictDeny, verdictDrop:
			if p.verdicts[i] == verdictDeny && !q.part && !q.settle {
				c.noteDenial()
			}
			c.node.metrics.decided[decision{writeNone, q.kind()}].Inc()
			q.answer(result{verdict: p.verdicts[i], settings: v.settings, item: v.item, now: now})
			continue
		case verdictCommit:
			w.committed = append(w.committed, q)
		case verdictWait, verdictMoved, verdictHot:
		}
		w.left = append(w.left, q)
	}
	c.keep(w.left)
	if len(w.left) == 0 {
		return
	}
	if len(w.committed) == 0 {
		c.read(ctx, w.left)
		return
	}
	w.expected = c.prepare(w.committed, p.after, v)
	nonce := c.node.nonce()
	w.asked = c.node.clock.Mono()
	within, end := c.trace(ctx, spanCommit, w.committed)
	if p.create != nil {
		w.form = writeCreate
		p.create.Bucket.LastWrite, p.create.Bucket.WriteUnits = nonce, c.writeUnits()
		w.answer = c.node.store.create(within, p.create, nonce)
	} else {
		p.commit.Nonce, p.commit.WriteUnits = nonce, c.writeUnits()
		w.answer = c.node.store.update(within, w.form, c.key, p.commit.Input(c.node.table), nonce)
	}
	end(w.failure())
	w.expected.prepared.Wait() // the calls may be planned again
	c.took(ctx, w)
}

// written is a write and what came of it.
type written struct {
	answer
	form      string
	asked     time.Duration  // monotonic time at which it was sent
	now       bucket.Instant // the moment it was planned for
	left      []*call        // the whole flight
	committed []*call        // those of it that are part of the write
	expected  *prospect      // what their answers are if nobody else writes; nil without such calls
}

// took draws the consequences of a write.
func (c *committer) took(ctx context.Context, w written) {
	switch w.outcome {
	case outcomeApplied:
		if c.owedUnits > 0 {
			c.noteCounted()
		}
		c.owedUnits, c.unitCost = 0, w.units
		c.learn(w.item, w.asked)
		c.notePace(w.item)
		c.noteDebt(w.item)
		c.keep(without(w.left, w.committed))
		if w.expected != nil {
			c.node.metrics.committed(w.form, w.committed) // whoever has the answer finds it counted
			c.deliver(w)
		}
	case outcomeRefused:
		cost := max(1, c.unitCost)
		c.owedUnits += cost
		c.noteRefused(cost)
		c.node.metrics.refusal(w.form, cost)
		c.learn(w.item, w.asked)
	case outcomeThrottled:
		c.throttled(ctx, w)
	case outcomeFailed:
		c.node.logStore(about(ctx, w.left...), "write", c.key, w.err)
		c.fail(w.left, errStoreDown)
	case outcomeDamaged:
		c.node.logStore(about(ctx, w.left...), "write", c.key, w.err)
		c.forget()
		c.fail(w.left, errDamaged)
	case outcomeUnknown:
		c.node.logStore(about(ctx, w.left...), "write", c.key, w.err)
		c.forget()
		failures := c.throttles
		if w.seen {
			c.learn(w.item, w.asked)
		}
		if len(w.committed) == 0 { // a sync: nobody is answered, and it is tried again
			c.throttles = failures
			c.backOff(ctx)
		}
		c.keep(without(w.left, c.doubt(w.committed)))
	}
}

// throttled is for a write that the store threw back. Calls that may go elsewhere
// do; the others wait, up to their own deadlines. Who knows nothing of the bucket
// looks what it is, for it may have shards that nobody throttles.
func (c *committer) throttled(ctx context.Context, w written) {
	calls := w.left
	if isHot(w.err) {
		c.noteThrottled(max(1, c.unitCost))
		c.shard(0).heated(c.key.Shard)
		c.relieve(calls)
		stay := calls[:0:0]
		for _, q := range calls {
			if q.elsewhere {
				q.answer(result{verdict: verdictHot})
				continue
			}
			stay = append(stay, q)
		}
		c.keep(stay)
		calls = stay
	}
	if stale := c.seenAt == 0 || w.asked-c.seenAt > maxDenialAge; stale && c.known == nil && len(calls) > 0 {
		c.read(ctx, calls)
	}
	c.backOff(ctx)
}

// doubt decides what a write of unknown outcome means: its tokens count as spent, and
// no acquire is admitted. Only a debit is written once more, because it must not be
// lost; it may count twice.
func (c *committer) doubt(committed []*call) (ended []*call) {
	for _, q := range committed {
		if q.settle && !q.refund && !q.repeated {
			q.repeated = true
			continue
		}
		if q.kind() == kindAcquire {
			c.node.metrics.abandoned.Inc()
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
