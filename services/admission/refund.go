package admission

import (
	"slices"
	"time"

	"github.com/tidegate/tidegate/pkg/api"
)

// maxRefundPause bounds the pause before a refund is tried again that was certainly not
// written.
const maxRefundPause = 2 * time.Second

// maxRefund bounds the tokens of a limit that a sum gives back. Every bucket that gets
// so many is full.
const maxRefund = 1 << 42

// waiter waits for the outcome of a refund, until its request is answered.
type waiter struct {
	request origin
	told    func(shardResult)
}

func (w waiter) isGone() bool { return w.request.isAnswered() }

// newRefund returns a call that gives back the amounts of op. Its waiter is told the
// outcome by c.
func newRefund(op operation, received time.Duration, w waiter, c caller) *call {
	op.settle, op.refund = true, true
	return &call{
		operation: op, waiters: []waiter{w}, caller: c,
		asker: asker{request: w.request, received: received, deadline: never, answerBy: never},
	}
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
	if len(q.waiters)+len(more.waiters) > cap(q.waiters) { // a sum may wait long, while waiters come and go
		q.waiters = slices.DeleteFunc(q.waiters, waiter.isGone)
		q.waiters = slices.Grow(q.waiters, len(q.waiters)+len(more.waiters))
	}
	q.waiters = append(q.waiters, more.waiters...)
}

// postpone tries a refund again after a pause. If the node must stop before it succeeds,
// the tokens stay spent.
func (w *writer) postpone(q *call) {
	pause := min(maxRefundPause, minBackoff<<min(q.failures, 10))
	q.failures++
	w.env.pool.Go(func() {
		timer := time.NewTimer(pause)
		defer timer.Stop()
		select {
		case <-timer.C:
			w.refund(q)
		case <-w.env.abort.Done():
			w.env.log.Warn("the node stops before a refund was written: its tokens stay spent", "bucket", w.key.Key().PK)
			q.answer(shardResult{err: errStoreDown})
		}
	})
}
