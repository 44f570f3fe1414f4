package admission

import (
	"slices"
	"sync"
	"sync/atomic"

	"github.com/tidegate/tidegate/internal/config"
	"github.com/tidegate/tidegate/internal/table"
	"github.com/tidegate/tidegate/pkg/bucket"
)

const (
	// apartFrom is from how many answers on they are made beside the next write
	// instead of before it.
	apartFrom = 8
	// apartWorkers is how many workers make them at most.
	apartWorkers = 2
)

// prospect is what a write under way will bring if nobody else writes in
// between, so that its answers can be made while the store works.
type prospect struct {
	item     *table.Bucket
	settings *config.Resolved
	now      bucket.Instant
	later    []int64
	prepared sync.WaitGroup
}

// prepare makes the answers of calls beside the write that is about to be sent,
// once those of the write before are out.
func (c *committer) prepare(calls []*call, after *table.Bucket, v view) *prospect {
	x := &prospect{item: after, settings: v.settings, now: v.now, later: laterSpends(calls, after)}
	before := c.delivered
	x.prepared.Add(1)
	c.node.flights.Go(func() {
		defer x.prepared.Done()
		if before != nil {
			before.Wait()
		}
		c.apart(&x.prepared, len(calls), func(i int) {
			if q := calls[i]; q.prepare != nil {
				q.prepare(x.result(i))
			}
		})
	})
	return x
}

// result is the one of call i.
func (x *prospect) result(i int) result {
	n := len(x.item.Limits)
	return result{
		verdict: verdictCommit, settings: x.settings, item: x.item, now: x.now, later: x.later[(i+1)*n : (i+2)*n],
	}
}

// deliver answers the calls of an applied write.
func (c *committer) deliver(w written) {
	x := w.expected
	if !sameBalances(x.item, w.item) { // others wrote too
		x = &prospect{item: w.item, settings: c.settings.Load(), now: w.now, later: laterSpends(w.committed, w.item)}
	}
	answer := func(i int) {
		if q := w.committed[i]; !q.answer(x.result(i)) && q.kind() == kindAcquire {
			c.node.metrics.abandoned.Inc() // the alarm was faster
		}
	}
	if len(w.committed) >= apartFrom {
		c.delivered = new(sync.WaitGroup)
		c.apart(c.delivered, len(w.committed), answer)
		return
	}
	for i := range w.committed {
		answer(i)
	}
}

// apart does something for each of n calls, beside the caller, by several workers
// side by side. They begin the calls in order, the first to arrive first: it has
// waited longest, and with one part of the calls for each worker it would not be
// answered before the last of another part.
func (c *committer) apart(done *sync.WaitGroup, n int, do func(i int)) {
	next := new(atomic.Int64)
	for range min(apartWorkers, (n+apartFrom-1)/apartFrom) {
		done.Add(1)
		c.node.flights.Go(func() {
			defer done.Done()
			for i := next.Add(1) - 1; i < int64(n); i = next.Add(1) - 1 {
				do(int(i))
			}
		})
	}
}

// laterSpends is what is spent behind each call of a write, by limit of the item:
// row i+1 is what those after call i spend.
func laterSpends(calls []*call, item *table.Bucket) []int64 {
	n := len(item.Limits)
	later := make([]int64, (len(calls)+1)*n)
	for i := len(calls) - 1; i >= 0; i-- {
		for l := range n {
			later[i*n+l] = later[(i+1)*n+l] + costOf(calls[i].amounts, item.Limits[l].Name)
		}
	}
	return later
}

// sameBalances reports whether answers made for one state of a shard are those
// for another.
func sameBalances(a, b *table.Bucket) bool {
	return a == b || (a.Level == b.Level && a.Fingerprint == b.Fingerprint &&
		slices.EqualFunc(a.Limits, b.Limits, func(x, y table.Limit) bool { return x.Limit == y.Limit && x.Drawn == y.Drawn }))
}
