package bench

import (
	"context"
	"fmt"
	"log/slog"
	"strconv"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"

	"github.com/tidegate/tidegate/engine"
	"github.com/tidegate/tidegate/engine/fault"
	lanes "github.com/tidegate/tidegate/internal/feed"
	"github.com/tidegate/tidegate/internal/table"
	"github.com/tidegate/tidegate/pkg/events"
	"github.com/tidegate/tidegate/pkg/keys"
	"github.com/tidegate/tidegate/services/aggregator"
)

// BenchmarkUsage: an aggregator drains a backlog of acquires, each a record of
// its own, which is the most that they can be. One entity shall cost at most two
// snapshot writes per batch of 256, hourly and daily; of 10,000 entities each
// acquire is another snapshot's.
//
// Several aggregators share the lanes. Here they share the processors too, so that
// their rate tells little; on machines of their own it grows with their number.
func BenchmarkUsage(b *testing.B) {
	for _, c := range []struct{ entities, aggregators int }{{1, 1}, {10_000, 1}, {10_000, 4}} {
		entities := c.entities
		b.Run(fmt.Sprintf("entities=%d/aggregators=%d", c.entities, c.aggregators), func(b *testing.B) {
			const acquires = 20_000
			w := newWorld(b)
			js := w.backlog(acquires, entities)
			calls := fault.New(fault.Options{Next: w.engine.HTTPClient(), Now: time.Now, Latency: fault.Fixed(storeLatency)})
			took := w.aggregate(js, calls, c.aggregators)
			writes := calls.Counts()["UpdateItem"]
			b.ReportMetric(float64(writes.Calls)/acquires*1000, "writes/1000-acquires")
			b.ReportMetric(writes.WriteUnits/acquires*1000, "WCU/1000-acquires")
			b.ReportMetric(acquires/took.Seconds(), "records/s")
			b.ReportMetric(0, "ns/op")
		})
	}
}

// backlog puts acquires into the feed, of the entities in turn.
func (w *world) backlog(acquires, entities int) jetstream.JetStream {
	w.tb.Helper()
	js, err := jetstream.New(w.connect())
	require.NoError(w.tb, err)
	_, err = lanes.EnsureFeed(w.tb.Context(), js, lanes.Retention{})
	require.NoError(w.tb, err)
	image := func(n int) *events.Bucket {
		return &events.Bucket{ShardCount: 1, Acquires: int64(n), WriteUnits: int64(n), Limits: []events.BucketLimit{
			{Name: "rpm", Capacity: 1 << 40, Refill: 1 << 20, PeriodMs: 60_000, Drawn: int64(n) * 1000, Consumed: int64(n) * 1000},
			{Name: "tpm", Capacity: 1 << 40, Refill: 1 << 20, PeriodMs: 60_000, Drawn: int64(n) * 500_000, Consumed: int64(n) * 500_000},
		}}
	}
	for i := range acquires {
		at, err := events.NewPosition("2026-03-01T00:00:00.000", strconv.Itoa(i+1))
		require.NoError(w.tb, err)
		n := i / entities
		change := &events.Change[events.Bucket]{New: image(n + 1)}
		if n > 0 {
			change.Old = image(n)
		}
		key := keys.Bucket{Namespace: w.ns, Entity: fmt.Sprintf("entity-%d", i%entities), Resource: resource}
		data, err := events.Encode(&events.Event{Position: at, AtMs: 1772366400000, Key: key, Bucket: change})
		require.NoError(w.tb, err)
		_, err = js.PublishAsync(events.Subject(events.KindBucket, events.Lane(key)), data)
		require.NoError(w.tb, err)
	}
	<-js.PublishAsyncComplete()
	return js
}

// aggregate runs aggregators until the feed is handled, and says how long it took.
func (w *world) aggregate(js jetstream.JetStream, calls *fault.Transport, n int) time.Duration {
	w.tb.Helper()
	stream, err := js.Stream(w.tb.Context(), events.StreamName)
	require.NoError(w.tb, err)
	ctx, cancel := context.WithCancel(w.tb.Context())
	defer cancel()
	start, ended := time.Now(), make(chan error, n)
	for i := range n {
		nc, err := nats.Connect(w.url, nats.ReconnectBufSize(-1))
		require.NoError(w.tb, err)
		a, err := aggregator.New(aggregator.Config{
			NATS: nc, DynamoDB: engine.Config(calls, "us-east-1"), Table: table.DefaultName, Member: "bench-" + strconv.Itoa(i),
			Now: time.Now, Log: slog.New(slog.DiscardHandler), Metrics: prometheus.NewRegistry(),
		})
		require.NoError(w.tb, err)
		go func() { ended <- a.Run(ctx) }()
		<-a.Ready()
	}
	require.Eventually(w.tb, func() bool {
		left := uint64(0)
		for info := range stream.ListConsumers(w.tb.Context()).Info() {
			left += info.NumPending + uint64(info.NumAckPending) //nolint:gosec // a count
		}
		return left == 0
	}, 5*time.Minute, 250*time.Millisecond, "the backlog is not drained")
	took := time.Since(start)
	cancel()
	for range n {
		require.NoError(w.tb, <-ended)
	}
	return took
}
