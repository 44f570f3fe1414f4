package bucket_test

import (
	"math/big"

	"pgregory.net/rapid"

	"github.com/tidegate/tidegate/pkg/bucket"
)

// century is 100 years in milliseconds, the time for which the bounds of a limit
// promise that nothing wraps.
const century = bucket.Instant(100 * 36525 * 24 * 36 * 1000)

// maxCost is the largest amount of one operation, in millitokens.
const maxCost = bucket.MaxTokens * bucket.Milli

// anyLimit draws allowed limits of every size, the extremes among them.
func anyLimit() *rapid.Generator[bucket.Limit] {
	return rapid.Custom(func(t *rapid.T) bucket.Limit {
		l := bucket.Limit{
			Name:     "any",
			Capacity: magnitude(maxCost).Draw(t, "capacity"),
			Refill:   magnitude(maxCost).Draw(t, "refill"),
			Period:   magnitude(bucket.MaxPeriod).Draw(t, "period"),
		}
		if l.Validate() != nil { // only the rate can be out of bounds
			l.Refill = rapid.Int64Range(1, min(maxCost, l.Period*bucket.MaxRate)).Draw(t, "slower refill")
		}
		return l
	})
}

// magnitude draws from 1 to most, each number of bits as likely as another, and
// most itself often.
func magnitude(most int64) *rapid.Generator[int64] {
	return rapid.OneOf(rapid.Just(most), rapid.Custom(func(t *rapid.T) int64 {
		bits := rapid.IntRange(0, 62).Draw(t, "bits")
		return rapid.Int64Range(1, min(most, int64(1)<<bits)).Draw(t, "value")
	}))
}

// smallLimit draws limits so small that histories meet their edges often.
func smallLimit() *rapid.Generator[bucket.Limit] {
	return rapid.Custom(func(t *rapid.T) bucket.Limit {
		return bucket.Limit{
			Name:     "small",
			Capacity: rapid.Int64Range(1, 60).Draw(t, "capacity"),
			Refill:   rapid.Int64Range(1, 20).Draw(t, "refill"),
			Period:   rapid.Int64Range(1, 20).Draw(t, "period"),
		}
	})
}

// anyShard draws a shard of any allowed split level.
func anyShard() *rapid.Generator[bucket.Shard] {
	return rapid.Custom(func(t *rapid.T) bucket.Shard {
		count := 1 << rapid.IntRange(0, 5).Draw(t, "level")
		return bucket.Shard{Index: rapid.IntRange(0, count-1).Draw(t, "index"), Count: count}
	})
}

// anyTree draws the shards of one bucket, each split as often as it happens.
func anyTree() *rapid.Generator[[]bucket.Shard] {
	return rapid.Custom(func(t *rapid.T) []bucket.Shard {
		tree := []bucket.Shard{bucket.Whole()}
		for range rapid.IntRange(0, 7).Draw(t, "splits") {
			i := rapid.IntRange(0, len(tree)-1).Draw(t, "split")
			if tree[i].Count < bucket.MaxShards {
				own, child := tree[i].Split()
				tree[i] = own
				tree = append(tree, child)
			}
		}
		return tree
	})
}

// drawnNear draws a drawn count from deep in debt to long idle, in capacities.
func drawnNear(w bucket.Window) *rapid.Generator[int64] {
	return rapid.OneOf(
		rapid.Int64Range(w.Full()-w.Capacity-3, w.Refilled+w.Capacity+3),
		rapid.Int64Range(w.Full()-2, w.Full()+2),
		rapid.Int64Range(w.Refilled-2, w.Refilled+2),
	)
}

// anyPool draws a bucket of small shards at a moment, indebted ones among them.
func anyPool(now bucket.Instant) *rapid.Generator[bucket.Pool] {
	return rapid.Custom(func(t *rapid.T) bucket.Pool {
		p := bucket.Pool{Limit: smallLimit().Draw(t, "limit")}
		for _, s := range anyTree().Draw(t, "tree") {
			drawn := drawnNear(p.Limit.Window(s, now)).Draw(t, "drawn")
			p.Shards = append(p.Shards, bucket.ShardDrawn{Shard: s, Drawn: drawn})
		}
		return p
	})
}

// exactRefill is instant × refill / period as a fraction.
func exactRefill(l bucket.Limit, at bucket.Instant) *big.Rat {
	num := new(big.Int).Mul(big.NewInt(int64(at)), big.NewInt(l.Refill))
	return new(big.Rat).SetFrac(num, big.NewInt(l.Period))
}

// exactFloor is the largest integer not above a fraction.
func exactFloor(r *big.Rat) *big.Int {
	q, m := new(big.Int), new(big.Int)
	q.DivMod(r.Num(), r.Denom(), m) // Euclidean: floor, as denominators are positive
	return q
}
