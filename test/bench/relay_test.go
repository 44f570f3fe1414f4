package bench

import (
	"context"
	"log/slog"
	"strconv"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"

	"github.com/tidegate/tidegate/engine"
	"github.com/tidegate/tidegate/internal/embednats/natstest"
	lanes "github.com/tidegate/tidegate/internal/feed"
	"github.com/tidegate/tidegate/internal/table"
	"github.com/tidegate/tidegate/pkg/bucket"
	"github.com/tidegate/tidegate/pkg/events"
	"github.com/tidegate/tidegate/pkg/keys"
	"github.com/tidegate/tidegate/services/relay"
)

// BenchmarkRelayDrain: a relay comes to a backlog of bucket writes in one stream
// shard. It shall publish at least 15,000 records per second, with the store and
// the NATS server in the same process.
func BenchmarkRelayDrain(b *testing.B) {
	const backlog = 40_000
	f := newFeed(b, engine.StreamOptions{RetentionBytes: 1 << 30})
	for n := range backlog {
		f.spend(n%1000, int64(n))
	}
	start, worked := time.Now(), processor(b)
	f.relay()
	f.await(backlog)
	b.ReportMetric(backlog/time.Since(start).Seconds(), "records/s")
	b.ReportMetric(float64((processor(b)-worked).Microseconds())/backlog, "cpu-µs/record")
	b.ReportMetric(0, "ns/op")
}

// processor is the processor time that the process has taken.
func processor(b *testing.B) time.Duration {
	b.Helper()
	var used syscall.Rusage
	require.NoError(b, syscall.Getrusage(syscall.RUSAGE_SELF, &used))
	return time.Duration(used.Utime.Nano() + used.Stime.Nano())
}

// BenchmarkRelayDelay: 2,000 bucket writes per second, each followed from its
// write to a handler of the feed. 99 of 100 shall take less than half a second.
func BenchmarkRelayDelay(b *testing.B) {
	const rate, writes = 2000, 10_000
	f := newFeed(b, engine.StreamOptions{RetentionBytes: 1 << 30})
	f.relay()
	var mu sync.Mutex
	at := make([]time.Time, writes)
	latencies, handled := histogram(), make(chan struct{})
	left := writes
	f.follow(func(_ context.Context, batch *lanes.Batch) error {
		now := time.Now()
		mu.Lock()
		defer mu.Unlock()
		for _, r := range batch.Records {
			if err := latencies.RecordValue(now.Sub(at[r.Bucket.New.Acquires]).Microseconds()); err != nil {
				return err
			}
		}
		if left -= len(batch.Records); left == 0 {
			close(handled)
		}
		return nil
	})
	start := time.Now()
	for n := range writes {
		if ahead := time.Duration(n)*time.Second/rate - time.Since(start); ahead > 0 {
			time.Sleep(ahead)
		}
		mu.Lock()
		at[n] = time.Now()
		mu.Unlock()
		f.spend(n%1000, int64(n))
	}
	<-handled
	b.ReportMetric(float64(latencies.ValueAtQuantile(50))/1000, "p50-ms")
	b.ReportMetric(float64(latencies.ValueAtQuantile(99))/1000, "p99-ms")
	b.ReportMetric(writes/time.Since(start).Seconds(), "writes/s")
	b.ReportMetric(0, "ns/op")
}

// feed is a world with a stream that a relay brings into the change feed.
type feed struct {
	*world
	db *dynamodb.Client
}

func newFeed(b *testing.B, streams engine.StreamOptions) *feed {
	b.Helper()
	w := &world{tb: b, url: natstest.Start(b).ClientURL(), engine: engine.New(engine.Options{Now: time.Now, Streams: streams})}
	f := &feed{world: w, db: dynamodb.NewFromConfig(engine.Config(w.engine.HTTPClient(), "us-east-1"))}
	require.NoError(b, table.CreateTable(b.Context(), f.db, table.DefaultName))
	return f
}

// spend writes a bucket of two limits.
func (f *feed) spend(entity int, n int64) {
	name := table.DefaultName
	limit := func(limit string) table.Limit {
		return table.Limit{Limit: bucket.Limit{Name: limit, Capacity: 100_000, Refill: 100_000, Period: 60_000}, Drawn: n, Consumed: n}
	}
	_, err := f.db.PutItem(context.Background(), &dynamodb.PutItemInput{TableName: &name, Item: table.EncodeBucket(&table.Bucket{
		Key: keys.Bucket{Namespace: "AAAAAAAAAAA", Entity: entityName(entity), Resource: resource}, Level: 1, Want: 1, Fingerprint: "k3J9x1QaZ0c",
		Limits: []table.Limit{limit("rpm"), limit("tpm")}, Acquires: n, WriteUnits: n, LastWrite: strconv.FormatInt(n, 10), TTL: 1763712000,
	})})
	require.NoError(f.tb, err)
}

// background runs a service until the benchmark ends.
func (f *feed) background(run func(context.Context) error, ready <-chan struct{}) {
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- run(ctx) }()
	f.tb.Cleanup(func() {
		cancel()
		require.NoError(f.tb, <-ended)
	})
	<-ready
}

func (f *feed) relay() {
	nc, err := nats.Connect(f.url, nats.ReconnectBufSize(-1))
	require.NoError(f.tb, err)
	r, err := relay.New(relay.Config{
		NATS: nc, DynamoDB: engine.Config(f.engine.HTTPClient(), "us-east-1"), Table: table.DefaultName, Member: "a",
		Now: time.Now, Log: slog.New(slog.DiscardHandler), Metrics: prometheus.NewRegistry(),
	})
	require.NoError(f.tb, err)
	f.background(r.Run, r.Ready())
}

func (f *feed) jetstream() jetstream.JetStream {
	js, err := jetstream.New(f.connect())
	require.NoError(f.tb, err)
	return js
}

func (f *feed) follow(handle func(context.Context, *lanes.Batch) error) {
	g, err := lanes.New(lanes.Config{
		JetStream: f.jetstream(), Service: "bench", Member: "a", Kinds: []events.Kind{events.KindBucket}, Handle: handle,
		Now: time.Now, Log: slog.New(slog.DiscardHandler), Metrics: prometheus.NewRegistry(),
	})
	require.NoError(f.tb, err)
	f.background(g.Run, g.Ready())
}

// await waits until the feed has so many events.
func (f *feed) await(want uint64) {
	js := f.jetstream()
	for {
		stream, err := js.Stream(f.tb.Context(), events.StreamName)
		require.NoError(f.tb, err)
		info, err := stream.Info(f.tb.Context(), jetstream.WithSubjectFilter(events.ChangesAll))
		require.NoError(f.tb, err)
		have := uint64(0)
		for _, n := range info.State.Subjects {
			have += n
		}
		if have >= want {
			return
		}
		time.Sleep(5 * time.Millisecond)
	}
}
