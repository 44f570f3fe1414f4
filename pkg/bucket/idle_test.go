package bucket_test

import (
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/tidegate/tidegate/pkg/bucket"
)

// TestLongIdleShardsFit splits a bucket that nobody has used for up to a century,
// so that a shard's drawn count, which keeps all that overflowed, lies far below
// what its share of the refill count suggests. Times computed from such a count
// must not wrap to ones that are near.
func TestLongIdleShardsFit(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		l := bucket.Limit{Name: "fastest", Capacity: magnitude(maxCost).Draw(t, "capacity"), Refill: bucket.MaxRate, Period: 1}
		now := bucket.Instant(rapid.Int64Range(1, int64(century)).Draw(t, "now"))
		since := bucket.Instant(rapid.Int64Range(0, int64(now)).Draw(t, "idle since"))
		p := wholePool(l, l.Window(bucket.Whole(), since).Full())
		for range rapid.IntRange(0, bucket.MaxShards-1).Draw(t, "splits") {
			d := &p.Shards[rapid.IntRange(0, len(p.Shards)-1).Draw(t, "shard")]
			if d.Count == bucket.MaxShards {
				continue
			}
			own, childDrawn := bucket.SplitDrawn(l, d.Shard, d.Drawn, now)
			keeps, child := d.Split()
			*d = bucket.ShardDrawn{Shard: keeps, Drawn: own.Apply(d.Drawn)}
			p.Shards = append(p.Shards, bucket.ShardDrawn{Shard: child, Drawn: childDrawn})
		}
		require.Equal(t, l.Capacity, p.Available(now), "all of it is full")

		const grace = 50
		for _, d := range p.Shards {
			near := l.WindowNear(d.Shard, now, d.Drawn, grace)
			require.Equal(t, l.Window(d.Shard, now).Capacity, near.Balance(d.Drawn))
			require.LessOrEqual(t, near.Refilled, l.Window(d.Shard, now).Refilled, "never planned ahead of now")
			require.GreaterOrEqual(t, near.Refilled, l.Window(d.Shard, now-grace).Refilled)
		}

		spent := rapid.IntRange(0, len(p.Shards)-1).Draw(t, "spent")
		w := l.Window(p.Shards[spent].Shard, now)
		debt := rapid.Int64Range(0, maxCost).Draw(t, "debt")
		p.Shards[spent].Drawn = w.Refilled + debt
		ms, ok := p.RetryAfter(l.Capacity, now)
		require.True(t, ok)
		require.True(t, p.Holds(l.Capacity, now+bucket.Instant(ms)))
		require.Equal(t, w.Capacity == 0 && debt == 0, ms == 0)
		require.True(t, ms == 0 || !p.Holds(l.Capacity, now+bucket.Instant(ms)-1), "not the least")
	})
}
