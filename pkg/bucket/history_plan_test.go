package bucket_test

import (
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/tidegate/tidegate/pkg/bucket"
)

// planBatch composes a few operations on one known shard.
func planBatch(t *rapid.T, known state, now bucket.Instant, grace int64) (write, bool) {
	w := write{at: now, cfg: known.cfg}
	d := rapid.SampledFrom(known.shards).Draw(t, "shard")
	tally := bucket.NewTally(known.limit.WindowNear(d.Shard, now, d.Drawn, grace), d.Drawn)
	for range rapid.IntRange(1, 3).Draw(t, "batch") {
		cost := max(0, rapid.OneOf(rapid.Just(tally.Balance()), rapid.Int64Range(0, known.limit.Capacity)).Draw(t, "cost"))
		switch rapid.IntRange(0, 7).Draw(t, "op") {
		case 6:
			tally.Debit(cost)
		case 7:
			tally.Credit(cost)
			w.credits += cost
		default:
			if tally.Spend(cost) {
				w.admits += cost
			}
		}
	}
	w.parts = []part{{d.Shard, tally.Change()}}
	return w, w.admits+w.credits > 0 || tally.Consumed() != 0
}

// planGather takes one cost from several known shards.
func planGather(t *rapid.T, known state, now bucket.Instant) (write, bool) {
	w := write{at: now, cfg: known.cfg}
	pool := known.pool()
	w.admits = rapid.Int64Range(0, max(0, pool.Available(now))).Draw(t, "cost")
	takes, ok := pool.Gather(w.admits, now)
	for _, take := range takes {
		d := pool.Shards[take.Index]
		tally := bucket.NewTally(known.limit.Window(d.Shard, now), d.Drawn)
		require.True(t, tally.Spend(take.Amount), "a shard holds what is taken from it")
		w.parts = append(w.parts, part{d.Shard, tally.Change()})
	}
	return w, ok
}

// planSplit splits a known shard.
func planSplit(t *rapid.T, known state, now bucket.Instant) (write, bool) {
	d := rapid.SampledFrom(known.shards).Draw(t, "shard")
	own, childDrawn := bucket.SplitDrawn(known.limit, d.Shard, d.Drawn, now)
	keeps, child := d.Split()
	return write{
		at: now, cfg: known.cfg, parts: []part{{d.Shard, own}}, becomes: keeps.Count,
		child: &bucket.ShardDrawn{Shard: child, Drawn: childDrawn},
	}, d.Count < 8
}

// planMerge merges a known shard into its parent, where both are at one level.
func planMerge(t *rapid.T, known state, now bucket.Instant) (write, bool) {
	gone := rapid.SampledFrom(known.shards).Draw(t, "shard")
	i := known.find(bucket.Shard{Index: gone.Parent(), Count: gone.Count})
	if gone.Index == 0 || i < 0 || gone.Born() != gone.Count {
		return write{}, false
	}
	into := known.shards[i]
	own, goneMax := bucket.MergeDrawn(known.limit, into, gone, now)
	return write{
		at: now, cfg: known.cfg, parts: []part{{into.Shard, own}}, becomes: into.Count / 2,
		gone: &gone.Shard, goneMax: goneMax, prompt: true,
	}, true
}
