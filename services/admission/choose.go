package admission

import (
	"hash/fnv"
	"math/bits"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/tidegate/tidegate/internal/config"
	"github.com/tidegate/tidegate/internal/shards"
	"github.com/tidegate/tidegate/internal/table"
	"github.com/tidegate/tidegate/pkg/api"
	"github.com/tidegate/tidegate/pkg/bucket"
)

// fullness is the score of a shard that holds its whole share. A score is taken of the
// limit of which the shard holds the smallest part of its share, and may be negative.
const fullness = 1024

// choose returns the shard to spend from: the shard used last, unless it is short or
// holds less than the best by 1/8 of a share; −1 where all are short. Nodes start at
// different shards. Shards that are hot, or about to be merged away, are avoided while
// others hold the costs; then elsewhere says that, if the chosen shard is hot as well,
// it is worth to choose again.
func (b *bucketState) choose(now bucket.Instant, tree shards.Tree, settings *config.Resolved, costs api.Amounts) (shard int, elsewhere bool) {
	usable := tree
	for i, item := range tree { // in the order of their numbers
		if item.Key.Shard >= tree.Wanted() {
			usable = tree[:i]
			break
		}
	}
	last, home := int(b.lastShard.Load()), homeOf(b.router.env.nonces.boot, len(usable))
	if was := int(b.shardsThen.Swap(int32(len(usable)))); was != len(usable) { //nolint:gosec // at most MaxShards
		last = usable[home].Key.Shard
		b.lastShard.Store(int32(last)) //nolint:gosec // below MaxShards
	}
	if shard = bestOf(now, usable, settings, costs, last, home, b.hot.within(b.router.env.clock.Mono(), coolTime)); shard >= 0 {
		return shard, true
	}
	return bestOf(now, tree, settings, costs, last, home, 0), false
}

// bestOf chooses among the shards that are not to be avoided. Of equal shards it takes
// the first from home on, so that nodes that leave a shard at once do not meet again.
func bestOf(now bucket.Instant, tree shards.Tree, settings *config.Resolved, costs api.Amounts, last, home int, avoid shardSet) int {
	best, bestScore, lastScore := -1, int64(0), int64(-1)
	for i := range tree {
		b := tree[(home+i)%len(tree)]
		if avoid.has(b.Key.Shard) {
			continue
		}
		score, holds := scoreOf(now, b, settings, costs)
		if !holds {
			continue
		}
		if b.Key.Shard == last {
			lastScore = score
		}
		if best < 0 || score > bestScore {
			best, bestScore = b.Key.Shard, score
		}
	}
	if lastScore >= 0 && lastScore+fullness/8 > bestScore {
		return last
	}
	return best
}

// homeOf returns where a node begins, so that nodes spread over the shards.
func homeOf(node string, count int) int {
	h := fnv.New32a()
	_, _ = h.Write([]byte(node + strconv.Itoa(count)))
	return int(h.Sum32() % uint32(count)) //nolint:gosec // at most MaxShards
}

// scoreOf returns how full a shard is, and whether it holds the costs by itself.
func scoreOf(now bucket.Instant, b *table.Bucket, settings *config.Resolved, costs api.Amounts) (score int64, holds bool) {
	score = fullness
	for i := range b.Limits {
		l := &b.Limits[i]
		if !settings.Governs(l.Name) {
			continue
		}
		w := l.Window(b.Shard(), now)
		balance := w.Balance(l.Drawn)
		if balance < costOf(costs, l.Name) {
			return 0, false
		}
		if w.Capacity > 0 {
			score = min(score, balance/max(1, w.Capacity/fullness))
		}
	}
	return score, true
}

// shardSet holds shards by number, a bit each.
type shardSet uint32

func (s shardSet) has(shard int) bool { return s>>shard&1 != 0 }

func (s shardSet) count() int { return bits.OnesCount32(uint32(s)) }

// coolTime is how long a throttled shard is left alone. Its partition lets through in
// that time a tenth of its rate per second.
const coolTime = 100 * time.Millisecond

// hotShards holds when each shard was hot last, monotonic, by number; 0 for never.
type hotShards [bucket.MaxShards]atomic.Int64

// within returns the shards that were hot at most so long ago.
func (h *hotShards) within(now, ago time.Duration) (hot shardSet) {
	for shard := range h {
		if at := h[shard].Load(); at != 0 && int64(now)-at < int64(ago) {
			hot |= 1 << shard
		}
	}
	return hot
}

// noteHot notes that a shard of the bucket is hot: throttled, or close to it.
func (b *bucketState) noteHot(shard int) {
	b.hot[shard].Store(int64(b.router.env.clock.Mono()))
}
