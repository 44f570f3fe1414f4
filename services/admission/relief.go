package admission

import (
	"context"
	"time"

	"github.com/tidegate/tidegate/internal/config"
	"github.com/tidegate/tidegate/internal/shards"
	"github.com/tidegate/tidegate/pkg/bucket"
)

// settleTime is how long a new number of shards has to take effect before more throttles
// ask for more: a partition's rate is per second.
const settleTime = 2 * time.Second

// relief is a number of wanted shards, and since when the node knows it.
type relief struct {
	wanted int
	at     time.Duration // monotonic
}

// relieve doubles the shards of a bucket after a throttle of a shard. costs are the
// costs of calls that wait, by limit, in whole tokens. The sharder doubles shards before
// they are throttled; relieve is for a load that came too suddenly. It does not wait.
func (b *bucketState) relieve(settings *config.Resolved, costs map[string]int64) {
	if settings == nil || len(settings.Limits) == 0 || !b.relieving.CompareAndSwap(false, true) {
		return
	}
	for name, usual := range b.costs.Load().usual() {
		costs[name] = max(costs[name], usual)
	}
	cost := func(limit string) int64 { return costs[limit] * bucket.Milli }
	e := b.router.env
	e.pool.Go(func() {
		defer b.relieving.Store(false)
		ctx, cancel := context.WithTimeout(e.abort, settleTime)
		defer cancel()
		tree, err := b.tree(ctx)
		if err != nil || len(tree) == 0 {
			return // a bucket that does not exist yet has nothing to divide
		}
		from := tree.Wanted()
		if !b.needsRelief(from) || !shards.Serves(settings.Limits, 2*from, cost) {
			return
		}
		if _, err = b.router.shards.Double(ctx, b.key(), from); err != nil {
			e.logStore(ctx, "double the shards", b.key(), err)
		}
		b.relieved.Store(&relief{wanted: 2 * from, at: e.clock.Mono()})
		b.forgetTree()
	})
}

// needsRelief reports whether the wanted number of shards had its time to take effect,
// and most of the shards are hot.
func (b *bucketState) needsRelief(wanted int) bool {
	now := b.router.env.clock.Mono()
	was := b.relieved.Load()
	if was == nil {
		was = &relief{wanted: 1, at: now - settleTime}
	}
	if was.wanted != wanted { // another node doubled them
		b.noteWanted(wanted)
		return false
	}
	if now-was.at < settleTime {
		return false
	}
	// If at most half of the shards are hot, the load is unbalanced: more shards would not
	// help.
	return b.hot.within(now, settleTime/2).count()*2 > wanted
}

// noteWanted notes how many shards are wanted. A node that was not throttled before
// another node doubled them need not wait again when it is.
func (b *bucketState) noteWanted(count int) {
	if was := b.relieved.Load(); was == nil || was.wanted != count {
		b.relieved.Store(&relief{wanted: count, at: b.router.env.clock.Mono()})
	}
}

// splitMissing splits off the shards that are wanted and do not exist, in the background.
func (b *bucketState) splitMissing(tree shards.Tree) {
	if !tree.Lacks() || !b.splitting.CompareAndSwap(false, true) {
		return
	}
	e := b.router.env
	e.pool.Go(func() {
		defer b.splitting.Store(false)
		ctx, cancel := context.WithTimeout(e.abort, maxTimeout)
		defer cancel()
		if _, err := b.router.shards.Spread(ctx, b.key()); err != nil {
			e.logStore(ctx, "split shards", b.key(), err)
		}
		b.forgetTree()
	})
}
