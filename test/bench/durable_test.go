package bench

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"

	"github.com/tidegate/tidegate/engine"
	"github.com/tidegate/tidegate/internal/embednats/natstest"
	"github.com/tidegate/tidegate/internal/rollback"
	"github.com/tidegate/tidegate/internal/table"
	"github.com/tidegate/tidegate/pkg/api"
)

// BenchmarkDurable: settlements are recorded in NATS, and each record is on the disk
// before it is acknowledged. A node's records that come together share an atomic batch,
// and so one sync. It compares that with a sync for each message, and both with a
// server that syncs every two minutes and may forget.
func BenchmarkDurable(b *testing.B) {
	const rounds, turn = 4, 500 * time.Millisecond
	synced, lazy := newRecords(b, true), newRecords(b, false)
	for _, callers := range []int{1, 64, 1024} {
		b.Run(fmt.Sprintf("callers=%d", callers), func(b *testing.B) {
			single, batched := &contender{call: synced.single}, &contender{call: synced.batched}
			lazySingle, lazyBatched := &contender{call: lazy.single}, &contender{call: lazy.batched}
			compare(b, callers, rounds, turn, single, batched, lazySingle, lazyBatched)
			b.ReportMetric(single.rate(), "messages/s")
			b.ReportMetric(batched.rate(), "batched/s")
			b.ReportMetric(batched.rate()/single.rate(), "batched/single")
			b.ReportMetric(single.rate()/lazySingle.rate(), "synced/lazy")
			b.ReportMetric(batched.rate()/lazyBatched.rate(), "synced/lazy-batched")
			b.ReportMetric(0, "ns/op")
		})
	}
}

// records is a bucket for records of settlements on a server of its own.
type records struct {
	nc    *nats.Conn
	js    jetstream.JetStream
	guard *rollback.Guard
	next  atomic.Int64
}

func newRecords(b *testing.B, synced bool) *records {
	b.Helper()
	s := natstest.StartWith(b, &server.Options{JetStream: true, SyncAlways: synced})
	r := &records{nc: s.Connect(b)}
	var err error
	r.js, err = jetstream.New(r.nc)
	require.NoError(b, err)
	_, err = rollback.OpenBucket(b.Context(), r.js, rollback.Bucket{Name: "RECORDS", TTL: time.Hour})
	require.NoError(b, err)
	embedded := engine.New(engine.Options{Now: time.Now})
	db := dynamodb.NewFromConfig(engine.Config(&http.Client{Transport: embedded.HTTPClient()}, "us-east-1"))
	require.NoError(b, table.CreateTable(b.Context(), db, table.DefaultName))
	r.guard, err = rollback.New(rollback.Config{
		NATS: r.nc, Bucket: "RECORDS", Subject: api.EpochSubject, Epochs: rollback.NewEpochs(db, table.DefaultName), Now: time.Now,
		Log: slog.New(slog.DiscardHandler), Metrics: prometheus.NewRegistry(), Tuning: rollback.Tuning{Timeout: timeout},
	})
	require.NoError(b, err)
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { _ = r.guard.Run(ctx) }) // it fails for a closed connection alone
	b.Cleanup(func() { cancel(); running.Wait() })
	<-r.guard.Ready()
	return r
}

// record is about as long as that of a lease with two limits.
func record() []byte { return make([]byte, 200) }

func (r *records) single(int) error {
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()
	_, err := r.js.Publish(ctx, fmt.Sprintf("$KV.RECORDS.%d", r.next.Add(1)), record(), jetstream.WithExpectLastSequencePerSubject(0))
	return err
}

func (r *records) batched(int) error {
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()
	_, _, err := r.guard.Write(ctx, fmt.Sprint(r.next.Add(1)), record(), 0)
	return err
}
