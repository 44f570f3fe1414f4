package bucket_test

import (
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/tidegate/tidegate/pkg/bucket"
)

// balances are what the shards of a pool hold.
func balances(p bucket.Pool, now bucket.Instant) []int64 {
	out := make([]int64, len(p.Shards))
	for i, s := range p.Shards {
		out[i] = p.Limit.Window(s.Shard, now).Balance(s.Drawn)
	}
	return out
}

func TestAvailable(t *testing.T) {
	l := bucket.Limit{Name: "l", Capacity: 20, Refill: 2, Period: 1000}
	tests := []struct {
		name      string
		drawn     []int64 // of shards 0 and 1 at instant 0
		available int64
		holds0    bool
	}{
		{"both hold", []int64{-3, -4}, 7, true},
		{"a debt that the other covers", []int64{-5, 4}, 1, true},
		{"a debt that the other does not cover", []int64{-3, 4}, -1, false},
		{"a debt as large as what the other holds", []int64{-4, 4}, 0, true},
		{"empty and in debt", []int64{0, 4}, -4, false},
		{"both in debt", []int64{3, 4}, -7, false},
		{"full", []int64{-99, -99}, 20, true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			p := bucket.Pool{Limit: l, Shards: []bucket.ShardDrawn{
				{Shard: bucket.Shard{Index: 0, Count: 2}, Drawn: tt.drawn[0]},
				{Shard: bucket.Shard{Index: 1, Count: 2}, Drawn: tt.drawn[1]},
			}}
			require.Equal(t, tt.available, p.Available(0))
			require.Equal(t, tt.holds0, p.Holds(0, 0))
			require.Equal(t, tt.available >= 3, p.Holds(3, 0))
		})
	}
}

// TestRetryAfterIsLeast checks that the bucket holds the cost after the wait and
// not a millisecond earlier, sharded and in debt too.
func TestRetryAfterIsLeast(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		now := bucket.Instant(rapid.Int64Range(0, 1<<30).Draw(t, "now"))
		p := anyPool(now).Draw(t, "pool")
		cost := rapid.Int64Range(0, p.Limit.Capacity+1).Draw(t, "cost")
		ms, ok := p.RetryAfter(cost, now)
		require.Equal(t, cost <= p.Limit.Capacity, ok)
		if !ok {
			require.Zero(t, ms)
			return
		}
		require.True(t, p.Holds(cost, now+bucket.Instant(ms)))
		if ms > 0 {
			require.False(t, p.Holds(cost, now+bucket.Instant(ms)-1))
		}
		require.Equal(t, p.Holds(cost, now), ms == 0)
	})
}

// TestLate checks how much later than one shard several leave a debt, against the
// shard that they become when all are merged, and that what the bucket holds is then
// the same.
func TestLate(t *testing.T) {
	late := 0
	rapid.Check(t, func(t *rapid.T) {
		now := bucket.Instant(rapid.Int64Range(0, 1<<30).Draw(t, "now"))
		p := anyPool(now).Draw(t, "pool")
		whole := merged(p, now)
		require.Equal(t, p.Available(now), whole.Available(now))
		divided, _ := p.RetryAfter(0, now)
		alone, _ := whole.RetryAfter(0, now)
		require.Equal(t, divided-alone, p.Late(now))
		require.GreaterOrEqual(t, p.Late(now), int64(0))
		if p.Late(now) > 0 {
			late++
		}
	})
	require.True(t, late > 0 || testing.Short(), "no pool was late") // few pools are
}

// merged is the pool after all its shards were merged, the highest first.
func merged(p bucket.Pool, now bucket.Instant) bucket.Pool {
	shards := map[int]bucket.ShardDrawn{}
	for _, s := range p.Shards {
		shards[s.Index] = s
	}
	for index := bucket.MaxShards - 1; index > 0; index-- {
		gone, ok := shards[index]
		if !ok {
			continue
		}
		into := shards[gone.Parent()]
		own, _ := bucket.MergeDrawn(p.Limit, into, gone, now)
		into.Drawn, into.Count = own.Apply(into.Drawn), into.Count/2
		shards[into.Index] = into
		delete(shards, index)
	}
	return bucket.Pool{Limit: p.Limit, Shards: []bucket.ShardDrawn{shards[0]}}
}

// TestAPoolHoldsWhatOneShardHolds follows a divided bucket and one of one shard through
// the same debits and credits: they hold, and owe, the same as long as no shard is full.
func TestAPoolHoldsWhatOneShardHolds(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		const capacity = 1 << 30 // never full
		l := bucket.Limit{Name: "l", Capacity: capacity, Refill: rapid.Int64Range(1, 20).Draw(t, "refill"), Period: rapid.Int64Range(1, 20).Draw(t, "period")}
		now := bucket.Instant(rapid.Int64Range(0, 1000).Draw(t, "start"))
		whole := bucket.Pool{Limit: l, Shards: []bucket.ShardDrawn{{Shard: bucket.Whole(), Drawn: l.Refilled(now)}}}
		divided := bucket.Pool{Limit: l}
		for _, s := range anyTree().Draw(t, "tree") {
			divided.Shards = append(divided.Shards, bucket.ShardDrawn{Shard: s, Drawn: s.Share(l.Refilled(now))})
		}
		for range rapid.IntRange(1, 20).Draw(t, "operations") {
			now += bucket.Instant(rapid.Int64Range(0, 100).Draw(t, "pass"))
			drawn := rapid.Int64Range(-500, 1000).Draw(t, "drawn")
			divided.Shards[rapid.IntRange(0, len(divided.Shards)-1).Draw(t, "shard")].Drawn += drawn
			whole.Shards[0].Drawn += drawn
			cost := rapid.Int64Range(0, 1000).Draw(t, "cost")
			require.Equal(t, whole.Available(now), divided.Available(now))
			require.Equal(t, whole.Holds(cost, now), divided.Holds(cost, now))
			is, _ := divided.RetryAfter(cost, now)
			want, _ := whole.RetryAfter(cost, now)
			require.Equal(t, want, is)
		}
	})
}

// TestGatherLevels checks that a gather takes exactly the cost, from no shard
// more than it holds, and leaves what is left as even as can be.
func TestGatherLevels(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		now := bucket.Instant(rapid.Int64Range(0, 1<<30).Draw(t, "now"))
		p := anyPool(now).Draw(t, "pool")
		cost := rapid.Int64Range(0, p.Limit.Capacity+1).Draw(t, "cost")
		takes, ok := p.Gather(cost, now)
		require.Equal(t, p.Holds(cost, now), ok)
		if !ok {
			require.Empty(t, takes)
			return
		}
		left, taken := balances(p, now), map[int]bool{}
		var sum int64
		for _, take := range takes {
			require.False(t, taken[take.Index], "one take per shard")
			require.Positive(t, take.Amount)
			taken[take.Index] = true
			sum += take.Amount
			left[take.Index] -= take.Amount
			require.GreaterOrEqual(t, left[take.Index], int64(0))
		}
		require.Equal(t, cost, sum)
		for i := range left {
			for j := range taken {
				require.LessOrEqual(t, left[i], left[j]+1, "shard %d is fuller than %d, which gave", i, j)
			}
		}
	})
}

// TestWindowNear checks the moment that a write is planned by: now for a busy
// shard, the moment at which it was just full for one that went idle within the
// grace. It holds there what it holds now.
func TestWindowNear(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		l, s := smallLimit().Draw(t, "limit"), anyShard().Draw(t, "shard")
		now := bucket.Instant(rapid.Int64Range(1<<20, 1<<30).Draw(t, "now"))
		grace := rapid.Int64Range(0, 3*l.Period).Draw(t, "grace")
		w := l.Window(s, now)
		drawn := drawnNear(w).Draw(t, "drawn")
		near := l.WindowNear(s, now, drawn, grace)
		require.Equal(t, w.Balance(drawn), near.Balance(drawn))
		require.Equal(t, w.Capacity, near.Capacity)

		wasBusy := false
		for at := now - bucket.Instant(grace); at <= now; at++ {
			wasBusy = wasBusy || !l.Window(s, at).Idle(drawn)
		}
		require.Equal(t, !wasBusy, near.Idle(drawn))
		if !wasBusy || !w.Idle(drawn) {
			require.Equal(t, w, near)
		}
		require.GreaterOrEqual(t, near.Refilled, l.Window(s, now-bucket.Instant(grace)).Refilled)
		require.LessOrEqual(t, near.Refilled, w.Refilled)
	})
}

// TestWindowNearSurvivesASpend checks what the grace is for: a plan for a shard
// that has just become full is still right after somebody else's spend.
func TestWindowNearSurvivesASpend(t *testing.T) {
	l := bucket.Limit{Name: "l", Capacity: 10, Refill: 3, Period: 1}
	now, drawn := bucket.Instant(1000), l.Window(bucket.Whole(), 999).Full()+1
	plan := func(w bucket.Window, cost int64) bucket.Change {
		tally := bucket.NewTally(w, drawn)
		require.True(t, tally.Spend(cost))
		return tally.Change()
	}
	near := l.WindowNear(bucket.Whole(), now, drawn, 1)
	theirs := plan(near, 4)
	require.True(t, plan(near, 6).Holds(theirs.Apply(drawn)))
	require.False(t, plan(near, 7).Holds(theirs.Apply(drawn)))
	require.False(t, plan(l.Window(bucket.Whole(), now), 1).Holds(theirs.Apply(drawn)))
}
