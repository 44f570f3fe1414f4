package bench

import (
	"math"
	"sync/atomic"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"

	"github.com/tidegate/tidegate/engine"
	"github.com/tidegate/tidegate/internal/table"
	"github.com/tidegate/tidegate/pkg/bucket"
	"github.com/tidegate/tidegate/pkg/keys"
	"github.com/tidegate/tidegate/services/admission"
)

// BenchmarkDistinctBuckets: each acquire is for another of 10,000 buckets, so
// nothing can be shared. The rate shall be at least 0.6 of that of the same
// callers who update the items themselves.
func BenchmarkDistinctBuckets(b *testing.B) {
	const buckets, callers, rounds, turn = 10_000, 1024, 8, 400 * time.Millisecond
	w := newWorld(b)
	n := w.node(storeLatency, admission.Tuning{})
	clients := w.clients(w.conns())
	var next atomic.Int64
	system := &contender{call: func(caller int) error {
		entity := entityName(int(next.Add(1)) % buckets)
		_, err := clients[caller%connections].Acquire(b.Context(), entity, resource, consume())
		return err
	}}
	for next.Load() < buckets { // create them all
		system.run(b, callers, turn)
	}
	*system = contender{call: system.call}
	bare := &contender{call: w.updates(b, n, buckets)}
	before := n.calls.Total()
	compare(b, callers, rounds, turn, bare, system)
	cost := minus(n.calls.Total(), before)

	b.ReportMetric(bare.rate(), "updates/s")
	b.ReportMetric(system.rate()/bare.rate(), "client/updates")
	b.ReportMetric((cost.WriteUnits-float64(bare.done))/float64(system.done), "WCU/acquire")
	b.ReportMetric(0, "ns/op")
}

// updates writes the buckets' items as the system does, with conditions that
// always hold.
func (w *world) updates(b *testing.B, n *node, buckets int) call {
	b.Helper()
	db := dynamodb.NewFromConfig(engine.Config(n.calls, "us-east-1"), func(o *dynamodb.Options) { o.RetryMaxAttempts = 1 })
	anyway := bucket.Change{Amount: 1, Min: math.MinInt64 / 4, Max: math.MaxInt64 / 4}
	first, err := db.GetItem(b.Context(), table.ReadInput(table.DefaultName, w.bucketKey(0).Key()))
	if err != nil {
		b.Fatal(err)
	}
	item, err := table.DecodeBucket(first.Item)
	if err != nil {
		b.Fatal(err)
	}
	var next atomic.Int64
	return func(int) error {
		commit := table.Commit{
			Key: w.bucketKey(int(next.Add(1)) % buckets), Guarded: true, Level: 1, Fingerprint: item.Fingerprint,
			Limits:     []table.LimitChange{{Name: "rpm", Change: anyway, Consumed: 1}, {Name: "tpm", Change: anyway, Consumed: 1}},
			WriteUnits: 1, Nonce: "bench.1",
		}
		_, err := db.UpdateItem(b.Context(), commit.Input(table.DefaultName))
		return err
	}
}

func (w *world) bucketKey(i int) keys.Bucket {
	return keys.Bucket{Namespace: w.ns, Entity: entityName(i), Resource: resource}
}
