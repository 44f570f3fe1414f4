package bucket_test

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/tidegate/tidegate/pkg/bucket"
)

func poolOf(shards []bucket.Shard) bucket.Pool {
	p := bucket.Pool{}
	for _, s := range shards {
		p.Shards = append(p.Shards, bucket.ShardDrawn{Shard: s})
	}
	return p
}

// partition reports whether each number up to the most shards falls to exactly
// one of the shards, as each millitoken of a refill count has to.
func partition(shards []bucket.Shard) bool {
	for x := range bucket.MaxShards {
		owners := 0
		for _, s := range shards {
			if x%s.Count == s.Index {
				owners++
			}
		}
		if owners != 1 {
			return false
		}
	}
	return true
}

// TestCompleteIsAPartition checks that a set of shards is complete exactly when
// it shares every amount out once: whole trees are, and of shards read in part
// before and in part after splits and merges those that still fit together.
func TestCompleteIsAPartition(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		before, after := anyTree().Draw(t, "before"), anyTree().Draw(t, "after")
		require.True(t, poolOf(before).Complete())

		var read []bucket.Shard
		for index := range bucket.MaxShards {
			from := before
			if rapid.Bool().Draw(t, "late") {
				from = after
			}
			if i := slices.IndexFunc(from, func(s bucket.Shard) bool { return s.Index == index }); i >= 0 {
				read = append(read, from[i])
			}
		}
		require.Equal(t, partition(read), poolOf(read).Complete(), "%v", read)
	})
}

func TestIncomplete(t *testing.T) {
	tests := []struct {
		name   string
		shards []bucket.Shard
	}{
		{"nothing", nil},
		{"no shard 0", []bucket.Shard{{Index: 1, Count: 2}}},
		{"a child not read", []bucket.Shard{{Index: 0, Count: 2}}},
		{"a parent from before the split", []bucket.Shard{{Index: 0, Count: 1}, {Index: 1, Count: 2}}},
		{"as many parts as a whole, but overlapping", []bucket.Shard{{Index: 0, Count: 2}, {Index: 2, Count: 4}, {Index: 1, Count: 4}}},
		{"the same shard twice", []bucket.Shard{{Index: 0, Count: 1}, {Index: 0, Count: 1}}},
		{"a level that is no power of two", []bucket.Shard{{Index: 0, Count: 3}, {Index: 1, Count: 3}, {Index: 2, Count: 3}}},
		{"a level too high", []bucket.Shard{{Index: 0, Count: 2 * bucket.MaxShards}}},
		{"an index above its level", []bucket.Shard{{Index: 0, Count: 1}, {Index: 1, Count: 1}}},
		{"an index below 0", []bucket.Shard{{Index: 0, Count: 1}, {Index: -1, Count: 2}}},
		{"level 0", []bucket.Shard{{Index: 0, Count: 0}}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) { require.False(t, poolOf(tt.shards).Complete()) })
	}
}

// TestCompleteAllocatesNothing keeps the check of every gather cheap.
func TestCompleteAllocatesNothing(t *testing.T) {
	p := benchPool()
	require.True(t, p.Complete())
	require.Zero(t, testing.AllocsPerRun(100, func() { p.Complete() }))
}
