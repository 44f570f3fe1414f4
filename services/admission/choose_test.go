package admission

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tidegate/tidegate/internal/shards"
	"github.com/tidegate/tidegate/internal/store"
	"github.com/tidegate/tidegate/internal/table"
	"github.com/tidegate/tidegate/pkg/api"
)

// dividedInto is a bucket of as many shards as there are balances, in millitokens.
func dividedInto(balances ...int64) shards.Tree {
	var tree shards.Tree
	l := perMinute("rpm", 100)
	for i, balance := range balances {
		b := &table.Bucket{Key: testKey(), Level: len(balances), Fingerprint: "print"}
		b.Key.Shard = i
		if i == 0 {
			b.Want = len(balances)
		}
		b.Limits = []table.Limit{{Limit: l, Drawn: l.Window(b.Shard(), testNow).Refilled - balance}}
		tree = append(tree, b)
	}
	return tree
}

// testBucket is a bucket of which a node knows nothing.
func testBucket(boot string) *bucketState {
	return &bucketState{router: &router{env: &env{nonces: &nonces{boot: boot}, clock: store.NewClock(new(manual).clock(0))}}}
}

// A share is 25 tokens, and an eighth of it 3.1.
func TestAShardIsLeftForAFullerOne(t *testing.T) {
	settings := testSettings(perMinute("rpm", 100))
	for name, tt := range map[string]struct {
		tree         shards.Tree
		last, choice int
		cost         int64
	}{
		"as full as others":     {dividedInto(20_000, 20_000, 20_000, 20_000), 2, 2, 1},
		"a little below":        {dividedInto(23_000, 20_000, 20_000, 20_000), 2, 2, 1},
		"an eighth below":       {dividedInto(24_000, 20_000, 20_000, 20_000), 2, 0, 1},
		"short":                 {dividedInto(3000, 1000, 1500, 500), 3, 0, 1},
		"in debt":               {dividedInto(3000, 1000, 1500, -1), 3, 0, 0},
		"all short":             {dividedInto(3000, 1000, 1500, 500), 3, -1, 4},
		"none that has it left": {dividedInto(-1, -1, -1, -1), 1, -1, 0},
	} {
		b := testBucket("node")
		b.lastShard.Store(int32(tt.last))
		b.shardsThen.Store(4)
		choice, _ := b.choose(testNow, tt.tree, settings, api.Amounts{{Name: "rpm", Tokens: tt.cost}})
		require.Equal(t, tt.choice, choice, name)
	}
}

// After a doubling, nodes spread over what is there.
func TestNodesSpreadOverNewShards(t *testing.T) {
	settings := testSettings(perMinute("rpm", 100))
	chosen := map[int]bool{}
	for _, boot := range []string{"a", "b", "c", "d", "e", "f", "g", "h", "i", "j", "k", "l"} {
		b := testBucket(boot)
		b.shardsThen.Store(2)
		choice, _ := b.choose(testNow, dividedInto(20_000, 20_000, 20_000, 20_000), settings, api.Amounts{{Name: "rpm", Tokens: 1}})
		chosen[choice] = true
	}
	require.Len(t, chosen, 4)
}
