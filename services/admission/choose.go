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

// fullness is how much of its share a shard holds, in 1/1024, of the limit of
// which it holds the least. It may be in debt.
const fullness = 1024

// choose is the shard to spend from: the one used last, unless it is short or
// holds less than the best by 1/8 of a share; −1 where all are short. What was
// never used is spread over by node. Shards that are hot, or about to be merged
// away, are left alone while others hold the costs. Once the shard is hot as well,
// elsewhere says, it is worth to choose again.
func (c *committer) choose(now bucket.Instant, tree shards.Tree, settings *config.Resolved, costs api.Amounts) (shard int, elsewhere bool) {
	usable := tree
	for i, b := range tree { // in the order of their numbers
		if b.Key.Shard >= tree.Wanted() {
			usable = tree[:i]
			break
		}
	}
	last, home := int(c.lastShard.Load()), homeOf(c.node.boot, len(usable))
	if was := int(c.shardsThen.Swap(int32(len(usable)))); was != len(usable) { //nolint:gosec // at most MaxShards
		last = usable[home].Key.Shard
		c.lastShard.Store(int32(last)) //nolint:gosec // below MaxShards
	}
	if shard = bestOf(now, usable, settings, costs, last, home, c.heatedWithin(coolTime)); shard >= 0 {
		return shard, true
	}
	return bestOf(now, tree, settings, costs, last, home, 0), false
}

// bestOf chooses among the shards that are not to be avoided. Of equal ones it is
// the first from home on: nodes that leave a shard at once do not meet again.
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

// shardSet is shards by number, a bit each.
type shardSet uint32

func (s shardSet) has(shard int) bool { return s>>shard&1 != 0 }

func (s shardSet) count() int { return bits.OnesCount32(uint32(s)) }

// coolTime is how long a shard is left alone that was throttled: what its partition
// lets through in that time is a tenth of what it lets through in a second.
const coolTime = 100 * time.Millisecond

const (
	// paceTime is over how long a shard's pace is taken at least.
	paceTime = 200 * time.Millisecond
	// hurry is the pace from which a shard is left alone as if it had been throttled:
	// 90 % of the 1,000 write units per second that its partition lets through.
	hurry = 900
)

// heat is when shards were hot last, monotonic, by number; 0 for never.
type heat [bucket.MaxShards]atomic.Int64

// heated notes that a shard of the bucket is hot; c is shard 0.
func (c *committer) heated(shard int) {
	h := c.heat.Load()
	if h == nil {
		c.heat.CompareAndSwap(nil, new(heat))
		h = c.heat.Load()
	}
	h[shard].Store(int64(c.node.clock.Mono()))
}

// heatedWithin are the shards that were hot not longer ago; c is shard 0.
func (c *committer) heatedWithin(ago time.Duration) (hot shardSet) {
	h := c.heat.Load()
	if h == nil {
		return 0
	}
	now := int64(c.node.clock.Mono())
	for shard := range h {
		if at := h[shard].Load(); at != 0 && now-at < int64(ago) {
			hot |= 1 << shard
		}
	}
	return hot
}

// pace is what all nodes together write to a shard.
type pace struct {
	at    time.Duration // monotonic, of the first look
	units int64         // that it had cost then
}

// notePace notes how fast a divided bucket's shard is written to, as its counter tells.
// One that several nodes have come upon is left before its partition throttles them.
func (c *committer) notePace(item *table.Bucket) {
	if item.Level == 1 {
		return
	}
	now := c.node.clock.Mono()
	since := now - c.pace.at
	if since < paceTime {
		return
	}
	if units := item.WriteUnits - c.pace.units; since < 2*paceTime && units*int64(time.Second) >= hurry*int64(since) {
		c.shard(0).heated(c.key.Shard)
	}
	c.pace = pace{at: now, units: item.WriteUnits}
}

// homeOf is where a node begins, so that nodes spread over the shards.
func homeOf(node string, count int) int {
	h := fnv.New32a()
	_, _ = h.Write([]byte(node + strconv.Itoa(count)))
	return int(h.Sum32() % uint32(count)) //nolint:gosec // at most MaxShards
}

// scoreOf is how full a shard is, and whether it holds the costs by itself.
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
