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
	// apartFrom is the number of answers from which they are made during the next write
	// instead of before it.
	apartFrom = 8
	// apartWorkers is the number of workers that make them at most.
	apartWorkers = 2
)

// prospect is the result that a write under way will have unless another node writes
// too, so that its answers can be made while the store works.
type prospect struct {
	item     *table.Bucket
	settings *config.Resolved
	now      bucket.Instant
	later    []int64
	prepared sync.WaitGroup
}

// prepare makes the answers of calls during the write that is about to be sent, after
// the answers of the write before are delivered; before may be nil.
func prepare(pool *workerPool, before *sync.WaitGroup, calls []*call, after *table.Bucket, v view) *prospect {
	x := &prospect{item: after, settings: v.settings, now: v.now, later: laterSpends(calls, after)}
	x.prepared.Add(1)
	pool.Go(func() {
		defer x.prepared.Done()
		if before != nil {
			before.Wait()
		}
		apart(pool, &x.prepared, len(calls), func(i int) { calls[i].caller.prepare(x.result(i)) })
	})
	return x
}

// result returns the result of call i.
func (x *prospect) result(i int) shardResult {
	n := len(x.item.Limits)
	return shardResult{
		verdict: verdictCommit, settings: x.settings, item: x.item, now: x.now, later: x.later[(i+1)*n : (i+2)*n],
	}
}

// deliver answers the calls of an applied write.
func (f flight) deliver(w written) {
	x := w.expected
	if !sameBalances(x.item, w.item) { // another node wrote too
		x = &prospect{item: w.item, settings: f.settings.last(), now: w.now, later: laterSpends(w.committed, w.item)}
	}
	metrics := f.env.metrics
	answer := func(i int) {
		if q := w.committed[i]; !q.answer(x.result(i)) && q.kind() == kindAcquire {
			metrics.abandoned.Inc() // the alarm was faster
		}
	}
	if len(w.committed) >= apartFrom {
		f.delivered = new(sync.WaitGroup)
		apart(f.env.pool, f.delivered, len(w.committed), answer)
		return
	}
	for i := range w.committed {
		answer(i)
	}
}

// apart calls do for each of n calls in the background, on several workers. They begin
// the calls in order of arrival: the first has waited longest, and if each worker had a
// part of the calls for itself, the first of a part would be answered after the last of
// another.
func apart(pool *workerPool, done *sync.WaitGroup, n int, do func(i int)) {
	next := new(atomic.Int64)
	for range min(apartWorkers, (n+apartFrom-1)/apartFrom) {
		done.Add(1)
		pool.Go(func() {
			defer done.Done()
			for i := next.Add(1) - 1; i < int64(n); i = next.Add(1) - 1 {
				do(int(i))
			}
		})
	}
}

// laterSpends returns the amounts that are spent after each call of a write, by limit of
// the item: row i+1 holds the spends of the calls after call i.
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

// sameBalances reports whether answers made for a state of a shard hold for another.
func sameBalances(a, b *table.Bucket) bool {
	return a == b || (a.Level == b.Level && a.Fingerprint == b.Fingerprint &&
		slices.EqualFunc(a.Limits, b.Limits, func(x, y table.Limit) bool { return x.Limit == y.Limit && x.Drawn == y.Drawn }))
}
