package bucket_test

import (
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/tidegate/tidegate/pkg/bucket"
)

func TestSharesSumToTheWhole(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		x := rapid.Int64Range(-1<<62, 1<<62).Draw(t, "x")
		count := 1 << rapid.IntRange(0, 5).Draw(t, "level")
		var sum int64
		for i := range count {
			part := bucket.Shard{Index: i, Count: count}.Share(x)
			require.LessOrEqual(t, max(part, x/int64(count))-min(part, x/int64(count)), int64(1), "parts are equal")
			sum += part
		}
		require.Equal(t, x, sum)

		s := anyShard().Draw(t, "shard")
		own, child := s.Split()
		require.Equal(t, s.Share(x), own.Share(x)+child.Share(x))
	})
}

func TestLineage(t *testing.T) {
	require.Equal(t, bucket.Shard{Index: 0, Count: 1}, bucket.Whole())
	require.Zero(t, bucket.Whole().Parent())
	require.Equal(t, 1, bucket.Whole().Born())
	tests := []struct{ index, parent, born int }{{1, 0, 2}, {2, 0, 4}, {3, 1, 4}, {5, 1, 8}, {6, 2, 8}, {7, 3, 8}, {31, 15, 32}}
	for _, tt := range tests {
		s := bucket.Shard{Index: tt.index, Count: bucket.MaxShards}
		require.Equal(t, tt.parent, s.Parent(), "shard %d", tt.index)
		require.Equal(t, tt.born, s.Born(), "shard %d", tt.index)
	}
	rapid.Check(t, func(t *rapid.T) {
		s := anyShard().Draw(t, "shard")
		own, child := s.Split()
		require.Equal(t, s.Index, own.Index)
		require.Equal(t, s.Index, child.Parent())
		require.Equal(t, own.Count, child.Count)
		require.Equal(t, child.Count, child.Born())
	})
}

// TestSplitConserves checks that a split leaves the balance what it was at its
// moment, in halves, and the drawn counts together what they were whatever was
// spent or given back before the write, wherever its change still holds.
func TestSplitConserves(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		l, s := smallLimit().Draw(t, "limit"), anyShard().Draw(t, "shard")
		now := bucket.Instant(rapid.Int64Range(0, 1<<30).Draw(t, "now"))
		w := l.Window(s, now)
		drawn := drawnNear(w).Draw(t, "drawn")
		own, childDrawn := bucket.SplitDrawn(l, s, drawn, now)
		keeps, child := s.Split()
		kept, given := l.Window(keeps, now), l.Window(child, now)

		require.True(t, own.Holds(drawn))
		require.Equal(t, w.Balance(drawn), kept.Balance(own.Apply(drawn))+given.Balance(childDrawn))
		uneven := given.Balance(childDrawn) - kept.Balance(own.Apply(drawn))

		moved := drawn + rapid.Int64Range(-2*w.Capacity-2, 2*w.Capacity+2).Draw(t, "moved")
		require.Equal(t, moved, own.Apply(moved)+childDrawn)
		if w.Balance(drawn) >= 0 {
			require.Contains(t, []int64{0, 1}, uneven, "the child's half is rounded up")
			require.Equal(t, own.Apply(moved) <= kept.Refilled, own.Holds(moved), "what stays is no debt")
			return
		}
		require.Contains(t, []int64{-1, 0, 1}, uneven)
		require.Equal(t, moved == drawn, own.Holds(moved))
		later := now + bucket.Instant(rapid.Int64Range(0, 9*l.FillTime()).Draw(t, "later"))
		solvent := l.Window(s, later).Refilled >= drawn
		keptSolvent := l.Window(keeps, later).Refilled >= own.Apply(drawn)
		childSolvent := l.Window(child, later).Refilled >= childDrawn
		require.Equal(t, solvent, keptSolvent && childSolvent, "the halves leave debt as the whole does")
	})
}

// TestSplitOfDebtIsNotLate checks a split that was planned in debt and arrives
// after the debt was paid and the refill spent: applied, it would give the child
// half of a refill that is spent already.
func TestSplitOfDebtIsNotLate(t *testing.T) {
	l := bucket.Limit{Name: "l", Capacity: 20, Refill: 1, Period: 1}
	planned, drawn := bucket.Instant(1000), int64(1003)
	own, _ := bucket.SplitDrawn(l, bucket.Whole(), drawn, planned)
	require.True(t, own.Holds(drawn))

	tally := bucket.NewTally(l.Window(bucket.Whole(), planned+10), drawn)
	require.True(t, tally.Spend(7))
	require.Zero(t, tally.Balance())
	require.False(t, own.Holds(tally.Change().Apply(drawn)))

	// The same, but a credit paid the debt and brought the count below.
	tally = bucket.NewTally(l.Window(bucket.Whole(), planned+2), drawn)
	tally.Credit(3)
	require.True(t, tally.Spend(2))
	require.False(t, own.Holds(tally.Change().Apply(drawn)))
}

// TestMergeNeverMints checks that the merged balance is at most the sum, equal to
// it where neither overflows, and that overflow of one never fills the other,
// whatever happened to both before the write.
func TestMergeNeverMints(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		l, parent := smallLimit().Draw(t, "limit"), anyShard().Draw(t, "shard")
		now := bucket.Instant(rapid.Int64Range(0, 1<<30).Draw(t, "now"))
		a, b := parent.Split()
		wa, wb, w := l.Window(a, now), l.Window(b, now), l.Window(parent, now)
		into := bucket.ShardDrawn{Shard: a, Drawn: drawnNear(wa).Draw(t, "into")}
		gone := bucket.ShardDrawn{Shard: b, Drawn: drawnNear(wb).Draw(t, "gone")}
		own, goneMax := bucket.MergeDrawn(l, into, gone, now)
		require.True(t, own.Holds(into.Drawn))
		require.LessOrEqual(t, gone.Drawn, goneMax)
		require.Equal(t, wa.Balance(into.Drawn)+wb.Balance(gone.Drawn), w.Balance(own.Apply(into.Drawn)))

		for range 4 {
			i := drawnNear(wa).Draw(t, "into by then")
			j := drawnNear(wb).Draw(t, "gone by then")
			if own.Holds(i) && j <= goneMax {
				merged := w.Refilled - own.Apply(i) // not capped: overflow would show
				require.LessOrEqual(t, merged, wa.Balance(i)+wb.Balance(j))
			}
			require.Equal(t, wa.Idle(i) == wa.Idle(into.Drawn), own.Holds(i))
		}
	})
}

// TestSyncKeepsTheBalance checks that new settings change no balance, but for
// the capacity.
func TestSyncKeepsTheBalance(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		from, to := smallLimit().Draw(t, "from"), smallLimit().Draw(t, "to")
		s := anyShard().Draw(t, "shard")
		now := bucket.Instant(rapid.Int64Range(0, 1<<30).Draw(t, "now"))
		before, after := from.Window(s, now), to.Window(s, now)
		change := bucket.SyncDrawn(from, to, s, now)
		for range 4 {
			drawn := drawnNear(before).Draw(t, "drawn")
			require.True(t, change.Holds(drawn), "a sync depends on no drawn count")
			require.Equal(t, min(after.Capacity, before.Refilled-drawn), after.Balance(change.Apply(drawn)))
		}
	})
}

// TestRemovableMeansFull checks that what may be forgotten is full, so that a
// limit that starts full again gains nothing.
func TestRemovableMeansFull(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		l, s := smallLimit().Draw(t, "limit"), anyShard().Draw(t, "shard")
		now := bucket.Instant(rapid.Int64Range(0, 1<<30).Draw(t, "now"))
		w := l.Window(s, now)
		drawn := drawnNear(w).Draw(t, "drawn")
		most, ok := bucket.Removable(l, s, drawn, now)
		require.Equal(t, w.Balance(drawn) == w.Capacity, ok)
		require.Equal(t, w.Capacity, w.Balance(most))
		require.Less(t, w.Balance(most+1), w.Capacity)
	})
}

// TestTTLMeansFull checks that every limit is full when its item expires, for
// any debt down to five capacities, and that the item lives no longer than that
// calls for.
func TestTTLMeansFull(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		limits := rapid.SliceOfN(smallLimit(), 1, 4).Draw(t, "limits")
		now := bucket.Instant(rapid.Int64Range(0, 1<<30).Draw(t, "now"))
		expires := bucket.Instant(bucket.TTL(limits, now)*1000 - bucket.EpochUnixMs)
		var slowest int64
		for _, l := range limits {
			deepest := l.Refilled(now) + 5*l.Capacity
			require.Equal(t, l.Capacity, l.Window(bucket.Whole(), expires).Balance(deepest))
			slowest = max(slowest, l.FillTime())
		}
		require.Less(t, int64(expires-now)-7*slowest, int64(1000))
	})
}

// TestExtremesFit runs everything that computes on the greatest allowed values,
// 100 years on: a result that wrapped would be on the wrong side.
func TestExtremesFit(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		l, s := anyLimit().Draw(t, "limit"), anyShard().Draw(t, "shard")
		now := rapid.SampledFrom([]bucket.Instant{0, 1, century / 2, century}).Draw(t, "now")
		w := l.Window(s, now)
		drawn := rapid.SampledFrom([]int64{
			-bucket.MaxDebt, w.Full() - 1, w.Full(), w.Refilled, w.Refilled + bucket.MaxDebt,
		}).Draw(t, "drawn")
		balance := w.Balance(drawn)
		require.LessOrEqual(t, balance, w.Capacity)
		require.GreaterOrEqual(t, balance, -bucket.MaxDebt)

		require.Positive(t, l.FillTime())
		require.Greater(t, bucket.TTL([]bucket.Limit{l}, now), now.Time().Unix())

		near := l.WindowNear(s, now, drawn, 1000)
		require.LessOrEqual(t, near.Refilled, w.Refilled)
		require.Equal(t, w.Capacity, near.Balance(min(drawn, near.Full())))

		own, childDrawn := bucket.SplitDrawn(l, s, drawn, now)
		keeps, child := s.Split()
		kept := bucket.ShardDrawn{Shard: keeps, Drawn: own.Apply(drawn)}
		given := bucket.ShardDrawn{Shard: child, Drawn: childDrawn}
		pool := bucket.Pool{Limit: l, Shards: []bucket.ShardDrawn{kept, given}}
		require.Equal(t, balance, l.Window(keeps, now).Balance(kept.Drawn)+l.Window(child, now).Balance(childDrawn))
		back, _ := bucket.MergeDrawn(l, kept, given, now)
		require.Equal(t, balance, w.Balance(back.Apply(kept.Drawn)))

		to := anyLimit().Draw(t, "to")
		synced := bucket.SyncDrawn(l, to, s, now).Apply(drawn)
		require.Equal(t, w.Refilled-drawn, to.Window(s, now).Refilled-synced)

		ms, ok := pool.RetryAfter(0, now)
		require.True(t, ok)
		require.GreaterOrEqual(t, ms, int64(0))
		ms, ok = wholePool(l, l.Refilled(now)+bucket.MaxDebt).RetryAfter(l.Capacity, now)
		require.True(t, ok)
		require.Positive(t, ms)
	})
}
