package bench

import (
	"fmt"
	"log/slog"
	"math"
	"net/http"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/nats-io/nats.go"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"

	"github.com/tidegate/tidegate/engine"
	"github.com/tidegate/tidegate/engine/fault"
	"github.com/tidegate/tidegate/internal/shards"
	"github.com/tidegate/tidegate/internal/table"
	"github.com/tidegate/tidegate/pkg/api"
	"github.com/tidegate/tidegate/pkg/keys"
	"github.com/tidegate/tidegate/services/admission"
	"github.com/tidegate/tidegate/services/sharder"
)

// BenchmarkPartitionHot: 5,000 acquires per second on one entity over four nodes, on
// partitions that bear 1,000 write units per second. No write shall be throttled,
// the 99th percentile be below 5 times the store's latency, and an acquire cost 0.2
// write units at most.
func BenchmarkPartitionHot(b *testing.B) {
	const rate, seconds = 5000, 10
	p := newPartitioned(b, true)
	p.nodes(4, storeLatency, admission.Tuning{})
	p.offer("hot", func(float64) float64 { return rate }, seconds)
	p.report()
	b.ReportMetric(p.latency(99)/(5*float64(storeLatency)/float64(time.Millisecond)), "p99/bound")
}

// BenchmarkPartitionRamp: a load on one entity that doubles every ten seconds, up to
// 4,000 per second, where each acquire is a write. With a sharder the shards shall be
// there before the first throttle; without, the doubling by nodes shall end the
// throttling within 2 seconds, from the first throttle of an episode to the last. Without shards, a partition's rate is all there is.
func BenchmarkPartitionRamp(b *testing.B) {
	for _, c := range []struct {
		name              string
		sharder, dividing bool
	}{{"sharder", true, true}, {"reactive", false, true}, {"off", false, false}} {
		b.Run(c.name, func(b *testing.B) {
			const first, last, doubling, seconds = 250, 4000, 10.0, 50
			p := newPartitioned(b, c.sharder)
			if !c.dividing {
				p.partitions.Match(refuseTransactions)
			}
			p.nodes(4, 0, admission.Tuning{Batch: 1})
			p.offer("ramp", func(at float64) float64 { return min(last, first*math.Pow(2, at/doubling)) }, seconds)
			p.report()
		})
	}
}

// refuseTransactions keeps every bucket on one shard.
func refuseTransactions(operation string, _ []byte) fault.Fault {
	if operation != "TransactWriteItems" {
		return fault.Fault{}
	}
	return fault.Fault{Kind: fault.Refused, Refusal: fault.Refusal{
		Status: http.StatusBadRequest, Type: "com.amazon.coral.validate#ValidationException", Message: "no transactions here",
	}}
}

// manyPartitions is so many that no two shards of a bucket share one.
const manyPartitions = 1 << 14

// partitioned is a world whose store has DynamoDB's partitions.
type partitioned struct {
	*feed
	partitions *fault.Transport
	trees      *shards.Store
	fleet      []*node

	mu                        sync.Mutex
	all                       *hdrhistogram.Histogram // guarded by mu: microseconds from when a request was due to its answer
	second                    *hdrhistogram.Histogram // guarded by mu: those of the running second
	offered, admitted, failed atomic.Int64
	throttles                 []int64 // by second
	episodes                  episodes
	still                     float64 // seconds, the longest that the offering itself did not run
}

// quiet is for how long nothing is throttled when an episode of throttles is over:
// what was thrown back before it comes again sooner.
const quiet = 1.0

// episodes are times of throttles, in seconds since the start.
type episodes struct {
	throttled   int64 // until now
	first, last float64
	count       int
	longest     float64 // from the first throttle of an episode to its last
}

// note takes in how many throttles there were until a moment.
func (e *episodes) note(at float64, throttled int64) {
	if throttled == e.throttled {
		return
	}
	if e.count == 0 || at-e.last > quiet {
		e.first, e.count = at, e.count+1
	}
	e.throttled, e.last = throttled, at
	e.longest = max(e.longest, at-e.first)
}

func newPartitioned(b *testing.B, sharded bool) *partitioned {
	b.Helper()
	w := newWorld(b)
	p := &partitioned{all: histogram(), second: histogram()}
	p.feed = &feed{world: w, db: dynamodb.NewFromConfig(engine.Config(w.engine.HTTPClient(), "us-east-1"))}
	p.partitions = fault.New(fault.Options{Next: w.store, Now: time.Now, Partitions: &fault.Partitions{Count: manyPartitions}})
	w.store = p.partitions
	p.trees = shards.NewStore(p.db, table.DefaultName, nil, nil)
	if sharded {
		p.relay()
		p.sharder()
	}
	return p
}

func (p *partitioned) nodes(count int, latency time.Duration, tuning admission.Tuning) {
	for range count {
		p.fleet = append(p.fleet, p.node(latency, tuning))
	}
}

// sharder runs until the benchmark ends.
func (p *partitioned) sharder() {
	p.tb.Helper()
	nc, err := nats.Connect(p.url, nats.ReconnectBufSize(-1))
	require.NoError(p.tb, err)
	s, err := sharder.New(sharder.Config{
		NATS: nc, DynamoDB: engine.Config(p.partitions, "us-east-1"), Table: table.DefaultName, Member: "bench",
		Clock: clock(), Log: slog.New(slog.DiscardHandler), Metrics: prometheus.NewRegistry(),
	})
	require.NoError(p.tb, err)
	p.background(s.Run, s.Ready())
}

// offer sends acquires at a rate that changes with time, whatever becomes of those
// before, and tells of each second.
func (p *partitioned) offer(entity string, rate func(seconds float64) float64, seconds int) {
	p.tb.Helper()
	conns, subject, request := p.conns(), api.Subject(api.DefaultNamespace, api.VerbAcquire), requestOf(entity)
	_, err := conns[0].Request(subject, request, timeout) // the bucket is there
	require.NoError(p.tb, err)
	inboxes := make([]string, len(conns))
	start := time.Now()
	for i, nc := range conns {
		inboxes[i] = nats.NewInbox() + "."
		_, err := nc.Subscribe(inboxes[i]+"*", func(m *nats.Msg) { p.answered(m, start) })
		require.NoError(p.tb, err)
		require.NoError(p.tb, nc.Flush())
	}
	var log strings.Builder
	fmt.Fprintf(&log, "%7s %8s %9s %7s %10s %7s %12s %8s\n", "second", "offered", "admitted", "failed", "throttled", "shards", "WCU/acquire", "p99 ms")
	was := p.counts(entity)
	due, last, looked := 0.0, 0.0, 0.0
	p.episodes.throttled = was.throttled
	for second := 1; second <= seconds; {
		now := time.Since(start).Seconds()
		p.still = max(p.still, now-last)
		if now >= looked+.01 {
			looked = now
			p.episodes.note(now, p.throttledSoFar())
		}
		due += rate(now) * min(now-last, .1) // a machine that stood still is no burst
		last = now
		for ; due >= 1; due-- {
			n := p.offered.Add(1)
			i := int(n) % len(conns)
			require.NoError(p.tb, conns[i].PublishRequest(subject, fmt.Sprint(inboxes[i], time.Since(start).Microseconds()), request))
		}
		if now >= float64(second) {
			is := p.counts(entity)
			p.throttles = append(p.throttles, is.throttled-was.throttled)
			fmt.Fprintf(&log, "%7d %8d %9d %7d %10d %7d %12.3f %8.1f\n", second, is.offered-was.offered, is.admitted-was.admitted, is.failed-was.failed,
				is.throttled-was.throttled, is.shards, (is.units-was.units)/float64(max(1, is.admitted-was.admitted)), is.p99)
			was, second = is, second+1
		}
		time.Sleep(time.Millisecond / 2)
	}
	deadline := time.Now().Add(timeout)
	for p.admitted.Load()+p.failed.Load() < p.offered.Load() && time.Now().Before(deadline) {
		time.Sleep(time.Millisecond)
	}
	require.Equal(p.tb, p.offered.Load(), p.admitted.Load()+p.failed.Load(), "some were never answered")
	fmt.Fprintf(os.Stdout, "%s\n%s", p.tb.Name(), &log) // a benchmark's log is cut after ten lines
}

// answered takes an answer in, to a request that was sent so many microseconds after
// the start.
func (p *partitioned) answered(m *nats.Msg, start time.Time) {
	var sent int64
	_, errSent := fmt.Sscan(m.Subject[strings.LastIndexByte(m.Subject, '.')+1:], &sent)
	took := time.Since(start).Microseconds() - sent
	if len(m.Header) > 0 {
		p.failed.Add(1)
		return
	}
	p.admitted.Add(1)
	p.mu.Lock()
	defer p.mu.Unlock()
	if errSent != nil || p.all.RecordValue(took) != nil || p.second.RecordValue(took) != nil {
		p.tb.Errorf("an answer after %d µs: %v", took, errSent)
	}
}

// sums are what there was until a moment.
type sums struct {
	offered, admitted, failed, throttled int64
	units                                float64
	shards                               int
	p99                                  float64 // ms, of the last second
}

func (p *partitioned) counts(entity string) sums {
	s := sums{
		offered: p.offered.Load(), admitted: p.admitted.Load(), failed: p.failed.Load(),
		throttled: p.throttledSoFar(), units: p.partitions.Total().WriteUnits,
	}
	tree, err := p.trees.Read(p.tb.Context(), keys.Bucket{Namespace: p.ns, Entity: entity, Resource: resource}, 0)
	require.NoError(p.tb, err)
	s.shards = len(tree)
	p.mu.Lock()
	defer p.mu.Unlock()
	s.p99 = float64(p.second.ValueAtQuantile(99)) / 1000
	p.second.Reset()
	return s
}

// throttledSoFar is how many calls the partitions have thrown back.
func (p *partitioned) throttledSoFar() (n int64) {
	for in, times := range p.partitions.Injected() {
		if in.Error == "ThrottlingException" { // as a table on demand throttles
			n += times
		}
	}
	return n
}

// latency is a percentile over all, in milliseconds.
func (p *partitioned) latency(percent float64) float64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	return float64(p.all.ValueAtQuantile(percent)) / 1000
}

// report tells of all seconds together.
func (p *partitioned) report() {
	b, ok := p.tb.(*testing.B)
	require.True(p.tb, ok)
	admitted := float64(p.admitted.Load())
	throttled, hot := int64(0), 0
	for _, n := range p.throttles {
		throttled += n
		if n > 0 {
			hot++
		}
	}
	b.ReportMetric(admitted/float64(p.offered.Load()), "admitted/offered")
	b.ReportMetric(float64(throttled), "throttled")
	b.ReportMetric(float64(hot), "seconds-throttled")
	b.ReportMetric(float64(p.episodes.count), "throttle-episodes")
	b.ReportMetric(p.episodes.longest, "longest-episode-s")
	b.ReportMetric(1000*p.still, "machine-still-ms") // a second without admissions is none of theirs where this is as long
	b.ReportMetric(p.partitions.Total().WriteUnits/admitted, "WCU/acquire")
	b.ReportMetric(p.latency(99), "p99-ms")
	b.ReportMetric(0, "ns/op")
}
