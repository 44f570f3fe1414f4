package admission

import (
	"sync"
	"time"

	"github.com/tidegate/tidegate/pkg/api"
)

// task is an operation on its way through the router: on a whole bucket, or, as a part
// or a settlement, on a single shard. Its client is told the result once.
type task struct {
	call   call    // for the writer of at
	at     *member // shard 0, where the operation concerns the bucket
	client client
}

// client receives the result of a task.
type client interface {
	// prepare is called during each write of a single shard that includes the task, with the
	// result that it gets unless another node writes too. So finish need not repeat work
	// for the same item.
	prepare(result)
	// finish is called once, with the result.
	finish(result)
}

// set makes the task an operation at a member.
func (t *task) set(at *member, op operation, whose asker, c client) {
	t.at, t.client = at, c
	t.call.operation, t.call.asker, t.call.caller = op, whose, t
}

// submit hands the task to its shard's writer, or, if the bucket is known to have several
// shards, to a multi-shard spend. It never blocks, and reports false if too many wait.
func (t *task) submit() bool {
	if q := &t.call; !q.settle && !q.part {
		if !q.peek {
			t.at.noteRequest(q.amounts)
		}
		if t.at.writer.known.isDivided() {
			return t.at.bucket().admitSpend(t)
		}
	}
	return t.at.writer.submit(&t.call)
}

// prepare implements caller.
func (t *task) prepare(res shardResult) { t.client.prepare(result{shardResult: res}) }

// finish implements caller. A bucket that turned out to have several shards needs a
// multi-shard spend. A settlement goes on at the parent shard if its shard is gone.
func (t *task) finish(q *call, res shardResult) {
	switch {
	case res.verdict == verdictDivided:
		t.at.bucket().startSpend(t)
	case res.verdict == verdictMoved && q.settle:
		t.at = t.at.parent()
		if !t.at.writer.submit(q.again()) {
			t.client.finish(result{shardResult: shardResult{err: errQueueFull}})
		}
	default:
		t.client.finish(result{shardResult: res})
	}
}

// subcall is an operation that a larger piece of work needs, such as a level of a
// cascade, or a shard of a bucket.
type subcall struct {
	to *member
	operation
}

// asked is a subcall under way.
type asked struct {
	task
	result
	waiting *sync.WaitGroup
}

// prepare implements client: a subcall has nothing to prepare.
func (*asked) prepare(result) {}

// finish implements client.
func (a *asked) finish(res result) {
	a.result = res
	a.waiting.Done()
}

// askAll hands all subcalls over and returns their results, at the latest when their
// time is up.
func askAll(subcalls []subcall, whose asker) []result {
	calls := make([]asked, len(subcalls))
	var waiting sync.WaitGroup
	waiting.Add(len(subcalls))
	for i := range subcalls {
		a := &calls[i]
		a.waiting = &waiting
		a.set(subcalls[i].to, subcalls[i].operation, whose, a)
		if !a.submit() {
			a.finish(result{shardResult: shardResult{err: errQueueFull}})
		}
	}
	waiting.Wait()
	results := make([]result, len(calls))
	for i := range calls {
		results[i] = calls[i].result
	}
	return results
}

// refunded is the outcome of a refund among several.
type refunded struct {
	index int
	shardResult
}

// refundAll hands refunds over and returns the channel of their results. They are final:
// they go on after the request is answered.
func refundAll(refunds []subcall, of origin) <-chan refunded {
	done := make(chan refunded, len(refunds))
	for i, s := range refunds {
		e := s.to.router.env
		e.unsettled.Add(1)
		s.to.writer.refund(newRefund(s.operation, e.clock.Mono(),
			waiter{of, func(res shardResult) { done <- refunded{i, res} }}, refundsOf{s.to}))
	}
	return done
}

// refundsOf is told the outcome of sums of refunds of a shard.
type refundsOf struct{ *member }

// prepare implements caller: refunds have nothing to prepare.
func (refundsOf) prepare(shardResult) {}

// finish implements caller. A sum goes on at the parent shard if its shard is gone.
func (r refundsOf) finish(q *call, res shardResult) {
	if res.verdict == verdictMoved {
		parent, next := r.parent(), q.again()
		next.caller = refundsOf{parent}
		parent.writer.refund(next)
		return
	}
	r.router.env.unsettled.Add(-1)
	for _, w := range q.waiters {
		w.told(res)
	}
}

// awaitRefunds tells each of the results of n refunds, as long as wait lasts.
func awaitRefunds(done <-chan refunded, n int, wait time.Duration, each func(i int, res result)) {
	due := time.NewTimer(max(0, wait))
	defer due.Stop()
	for range n {
		select {
		case x := <-done:
			each(x.index, result{shardResult: x.shardResult})
		case <-due.C:
			return
		}
	}
}

// peekAt returns the result of a peek at a bucket. Amounts are of limits that the bucket
// should have.
func (m *member) peekAt(amounts api.Amounts, whose asker) result {
	return askAll([]subcall{{m, operation{peek: true, amounts: amounts}}}, whose)[0]
}
