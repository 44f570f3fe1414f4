package bucket_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tidegate/tidegate/pkg/bucket"
)

var (
	benchLimit = bucket.Limit{Name: "rpm", Capacity: 100_000, Refill: 100_000, Period: 60_000}
	benchNow   = bucket.Instant(50_000_000_000)
	benchDrawn = benchLimit.Refilled(benchNow) - 40_000
)

// benchPool is a bucket of 8 shards, each with another balance.
func benchPool() bucket.Pool {
	p := bucket.Pool{Limit: benchLimit}
	for i := range 8 {
		s := bucket.Shard{Index: i, Count: 8}
		drawn := benchLimit.Window(s, benchNow).Refilled - int64(i*1000)
		p.Shards = append(p.Shards, bucket.ShardDrawn{Shard: s, Drawn: drawn})
	}
	return p
}

// spendOnce is what an acquire computes for one limit.
func spendOnce() bucket.Change {
	tally := bucket.NewTally(benchLimit.Window(bucket.Whole(), benchNow), benchDrawn)
	tally.Spend(bucket.Milli)
	return tally.Change()
}

// TestNoAllocation keeps the path of every acquire free of allocations.
func TestNoAllocation(t *testing.T) {
	whole, sharded := wholePool(benchLimit, benchDrawn), benchPool()
	paths := map[string]func(){
		"tally":               func() { spendOnce() },
		"window near":         func() { benchLimit.WindowNear(bucket.Whole(), benchNow, 0, 1000) },
		"retry after":         func() { whole.RetryAfter(90_000, benchNow) },
		"sharded retry after": func() { sharded.RetryAfter(90_000, benchNow) },
	}
	for name, path := range paths {
		require.Zero(t, testing.AllocsPerRun(100, path), name)
	}
}

func BenchmarkWindow(b *testing.B) {
	b.ReportAllocs()
	s := bucket.Shard{Index: 3, Count: 8}
	for b.Loop() {
		benchLimit.Window(s, benchNow)
	}
}

func BenchmarkTallySpend(b *testing.B) {
	b.ReportAllocs()
	for b.Loop() {
		spendOnce()
	}
}

func BenchmarkRetryAfter(b *testing.B) {
	for name, p := range map[string]bucket.Pool{"whole": wholePool(benchLimit, benchDrawn), "sharded": benchPool()} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				p.RetryAfter(90_000, benchNow)
			}
		})
	}
}

func BenchmarkGather(b *testing.B) {
	b.ReportAllocs()
	p := benchPool()
	for b.Loop() {
		p.Gather(20_000, benchNow)
	}
}
