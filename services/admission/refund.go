package admission

import (
	"slices"
	"time"

	"github.com/tidegate/tidegate/pkg/api"
)

// maxRefundPause bounds the pause before a refund is tried again that the store
// certainly did not take.
const maxRefundPause = 2 * time.Second

// maxRefund bounds the tokens of a limit that a sum gives back. Every bucket that gets
// so many is full.
const maxRefund = 1 << 42

// giveBack adds a refund to the sum that the shard's next write gives back. A refund
// is final: it takes no room in the queue, has no deadline, and is tried again until
// the store takes it or the outcome is unknown, in which case its tokens stay spent.
// finish is called with what came of it, unless r is answered before.
func (c *committer) giveBack(op operation, r *request, finish func(result)) {
	now := c.node.clock.Mono()
	q := &call{operation: op, asker: asker{request: r, received: now, deadline: never, answerBy: never}}
	q.settle, q.refund = true, true
	q.waiters = []waiter{{r, finish}}
	q.finish = func(r result) {
		c.node.unsettled.Add(-1)
		for _, w := range q.waiters {
			w.told(r)
		}
	}
	c.node.unsettled.Add(1)
	c.giveBackAll(q)
}

// waiter is told what came of a refund, as long as its request is not answered.
type waiter struct {
	request *request
	told    func(result)
}

func (w waiter) isGone() bool { return w.request.answered.Load() }

// refunded is what came of one of several refunds.
type refunded struct {
	index int
	result
}

// giveBackTogether hands refunds over and returns the channel of their results.
func giveBackTogether(refunds []errand, r *request) <-chan refunded {
	done := make(chan refunded, len(refunds))
	for i, e := range refunds {
		e.to.giveBack(e.operation, r, func(res result) { done <- refunded{i, res} })
	}
	return done
}

// awaitRefunds tells the results of n refunds, until the answer to r is due.
func awaitRefunds(done <-chan refunded, n int, r *request, each func(i int, res result)) {
	due := time.NewTimer(max(0, r.answerBy()-r.service.clock.Mono()))
	defer due.Stop()
	for range n {
		select {
		case x := <-done:
			each(x.index, x.result)
		case <-due.C:
			return
		}
	}
}

// giveBackAll adds a sum of refunds.
func (c *committer) giveBackAll(q *call) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.refunds == nil {
		c.refunds = q
	} else {
		c.refunds.join(q)
	}
	if !c.flying {
		c.flying = true
		c.node.flights.Go(c.fly)
	}
}

// boardRefunds moves the sum of refunds into the flight, before what waits behind
// them. c.mu is held.
func (c *committer) boardRefunds() {
	if c.refunds == nil {
		return
	}
	if i := slices.IndexFunc(c.flight, func(q *call) bool { return q.refund && !q.answered.Load() }); i >= 0 {
		c.flight[i].join(c.refunds)
	} else {
		c.flight = append(c.flight, c.refunds)
	}
	c.refunds = nil
}

// join adds another sum of refunds. Neither may be part of a write.
func (q *call) join(more *call) {
	amounts := slices.Clone(q.amounts)
	for _, a := range more.amounts {
		i := slices.IndexFunc(amounts, func(b api.Amount) bool { return b.Name == a.Name })
		if i < 0 {
			amounts = append(amounts, a)
			continue
		}
		amounts[i].Tokens = max(amounts[i].Tokens+a.Tokens, -maxRefund)
	}
	q.amounts = amounts
	q.undone += more.undone
	q.settled += more.settled
	q.received = max(q.received, more.received)
	if len(q.waiters)+len(more.waiters) > cap(q.waiters) { // a sum may wait long, with waiters that come and go
		q.waiters = slices.DeleteFunc(q.waiters, waiter.isGone)
		q.waiters = slices.Grow(q.waiters, len(q.waiters)+len(more.waiters))
	}
	q.waiters = append(q.waiters, more.waiters...)
	q.request.service.unsettled.Add(-1) // two sums are one now
}

// dropRefunds answers the refunds of a shard that is not there, and returns the other
// calls: a bucket that is gone is full.
func (c *committer) dropRefunds(calls []*call) []*call {
	if !c.absent || !slices.ContainsFunc(calls, func(q *call) bool { return q.refund }) {
		return calls
	}
	rest := make([]*call, 0, len(calls))
	for _, q := range calls {
		if q.refund {
			q.answer(result{verdict: verdictDrop})
			continue
		}
		rest = append(rest, q)
	}
	c.keep(rest)
	return rest
}

// postpone tries a refund again, after a pause, that was certainly not written. A
// node that must stop before it succeeds leaves the tokens spent.
func (c *committer) postpone(q *call) {
	pause := min(maxRefundPause, minBackoff<<min(q.failures, 10))
	q.failures++
	c.node.flights.Go(func() {
		timer := time.NewTimer(pause)
		defer timer.Stop()
		select {
		case <-timer.C:
			c.giveBackAll(q)
		case <-c.node.abort.Done():
			c.node.log.Warn("the node stops before a refund was written: its tokens stay spent", "bucket", c.key.Key().PK)
			q.answer(result{err: errStoreDown})
		}
	})
}
