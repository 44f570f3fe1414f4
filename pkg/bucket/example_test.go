package bucket_test

import (
	"fmt"

	"github.com/tidegate/tidegate/pkg/bucket"
)

// The worked example of the package documentation: two requests of a bucket that
// has been full for a minute.
func Example() {
	limit := bucket.Limit{Name: "rps", Capacity: 10 * bucket.Milli, Refill: 5 * bucket.Milli, Period: 1000}
	now, drawn := bucket.Instant(60_000), int64(-10_000)

	tally := bucket.NewTally(limit.Window(bucket.Whole(), now), drawn)
	fmt.Println("4 tokens:", tally.Spend(4*bucket.Milli))
	change := tally.Change()
	fmt.Println("write: set", change.Set, change.Amount, "if drawn is at most", change.Max)
	drawn = change.Apply(drawn)

	pool := bucket.Pool{Limit: limit, Shards: []bucket.ShardDrawn{{Shard: bucket.Whole(), Drawn: drawn}}}
	fmt.Println("left:", pool.Available(now))
	fmt.Println("7 tokens:", pool.Holds(7*bucket.Milli, now))
	wait, _ := pool.RetryAfter(7*bucket.Milli, now)
	fmt.Println("retry after:", wait, "ms")
	// Output:
	// 4 tokens: true
	// write: set true 294000 if drawn is at most 289999
	// left: 6000
	// 7 tokens: false
	// retry after: 200 ms
}

// A split halves a balance exactly, and a gather takes a cost that no half holds
// alone.
func ExamplePool_Gather() {
	limit := bucket.Limit{Name: "rps", Capacity: 10 * bucket.Milli, Refill: 5 * bucket.Milli, Period: 1000}
	now, drawn := bucket.Instant(60_000), int64(291_000) // holds 9 tokens

	own, childDrawn := bucket.SplitDrawn(limit, bucket.Whole(), drawn, now)
	keeps, child := bucket.Whole().Split()
	pool := bucket.Pool{Limit: limit, Shards: []bucket.ShardDrawn{
		{Shard: keeps, Drawn: own.Apply(drawn)},
		{Shard: child, Drawn: childDrawn},
	}}
	for _, s := range pool.Shards {
		fmt.Println("shard", s.Index, "holds", limit.Window(s.Shard, now).Balance(s.Drawn))
	}
	takes, ok := pool.Gather(7*bucket.Milli, now)
	fmt.Println(takes, ok)
	// Output:
	// shard 0 holds 4500
	// shard 1 holds 4500
	// [{0 3500} {1 3500}] true
}
