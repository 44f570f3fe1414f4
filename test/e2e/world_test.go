package e2e_test

import (
	"context"
	"log/slog"
	"net/http"
	"reflect"
	"sync/atomic"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"

	"github.com/tidegate/tidegate/engine"
	"github.com/tidegate/tidegate/engine/fault"
	"github.com/tidegate/tidegate/internal/audit"
	"github.com/tidegate/tidegate/internal/config"
	"github.com/tidegate/tidegate/internal/control"
	"github.com/tidegate/tidegate/internal/embednats/natstest"
	"github.com/tidegate/tidegate/internal/feed"
	"github.com/tidegate/tidegate/internal/store"
	"github.com/tidegate/tidegate/internal/table"
	"github.com/tidegate/tidegate/pkg/api"
	tidegate "github.com/tidegate/tidegate/pkg/client"
	"github.com/tidegate/tidegate/pkg/events"
	"github.com/tidegate/tidegate/services/admission"
	"github.com/tidegate/tidegate/services/aggregator"
	"github.com/tidegate/tidegate/services/relay"
	"github.com/tidegate/tidegate/test/ledger"
)

const region = "us-east-1"

// clock is the time of the store and of all services. It goes on by itself, from a
// moment of the test's choice.
type clock struct {
	start time.Time    // when the test began
	began time.Time    // what it was then
	ahead atomic.Int64 // by how much it was moved on since, in nanoseconds
	still bool         // it does not go on by itself
}

func (c *clock) passed() time.Duration {
	passed := time.Duration(c.ahead.Load())
	if !c.still {
		passed += time.Since(c.start)
	}
	return passed
}

func (c *clock) now() time.Time { return c.began.Add(c.passed()) }

// advance moves it on, for everybody at once.
func (c *clock) advance(d time.Duration) { c.ahead.Add(int64(d)) }

func (c *clock) read() store.ClockReading { return store.ClockReading{Wall: c.now(), Mono: c.passed()} }

// options are what differs between worlds.
type options struct {
	began   time.Time // on the clock; now where zero
	still   bool      // the clock does not go on by itself
	streams engine.StreamOptions
	reads   fault.Options // between relays and the store
	writes  fault.Options // between aggregators and the store
}

// world is a store and a NATS server.
type world struct {
	clock         *clock
	ledger        ledger.Ledger
	table         string
	engine        *engine.Engine
	db            *dynamodb.Client // beside all faults
	reads, writes *fault.Transport
	nats          *natstest.Server
	ns            string // id of the default namespace
	limits        *config.LimitStore
}

func newWorld(t *testing.T, o options) *world {
	t.Helper()
	w := &world{
		clock: &clock{start: time.Now(), began: o.began, still: o.still}, table: table.DefaultName, nats: natstest.Start(t),
	}
	if o.began.IsZero() {
		w.clock.began = w.clock.start.Round(0)
	}
	w.engine = engine.New(engine.Options{Now: w.clock.now, Streams: o.streams, OnCommit: w.enter})
	for _, f := range []struct {
		options fault.Options
		to      **fault.Transport
	}{{o.reads, &w.reads}, {o.writes, &w.writes}} {
		f.options.Next, f.options.Now = w.engine.HTTPClient(), w.clock.now
		*f.to = fault.New(f.options)
	}
	w.db = dynamodb.NewFromConfig(engine.Config(&http.Client{Transport: w.engine.HTTPClient()}, region))
	require.NoError(t, table.CreateTable(t.Context(), w.db, w.table))
	var err error
	w.ns, err = config.NewNamespaces(w.db, w.table).Ensure(t.Context(), api.DefaultNamespace)
	require.NoError(t, err)
	w.limits = config.NewLimitStore(w.db, w.table, audit.NewLog(w.db, w.table, func() (time.Time, error) { return w.clock.now(), nil }))
	return w
}

func (w *world) connect(t *testing.T, options ...nats.Option) *nats.Conn {
	t.Helper()
	quiet := nats.ErrorHandler(func(*nats.Conn, *nats.Subscription, error) {})
	return w.nats.Connect(t, append([]nats.Option{quiet}, options...)...)
}

func (w *world) jetstream(t *testing.T) jetstream.JetStream {
	t.Helper()
	js, err := jetstream.New(w.connect(t))
	require.NoError(t, err)
	return js
}

func (w *world) client(t *testing.T) *tidegate.Client {
	t.Helper()
	c, err := tidegate.New(w.connect(t), tidegate.WithTimeout(10*time.Second))
	require.NoError(t, err)
	return c
}

// setLimits stores limits as another writer of the table would: nobody is told.
func (w *world) setLimits(t *testing.T, target api.LimitsTarget, ls ...api.Limit) {
	t.Helper()
	_, err := w.limits.Set(t.Context(), w.ns, api.Principal{}, api.LimitsSetRequest{LimitsTarget: target, Limits: ls})
	require.NoError(t, err)
}

func perDay(name string, tokens int64) api.Limit {
	return api.Limit{Name: name, Capacity: tokens, RefillAmount: tokens, RefillPeriodSeconds: 86400}
}

// process is a running service.
type process struct {
	name    string
	conn    *nats.Conn
	metrics *prometheus.Registry
	stop    context.CancelFunc
	ended   chan struct{}
	err     error // of Run; set when ended is closed
}

// run runs a service until the process ends.
func run(t *testing.T, p *process, service interface {
	Run(ctx context.Context) error
	Ready() <-chan struct{}
},
) *process {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	p.stop, p.ended = cancel, make(chan struct{})
	go func() { defer close(p.ended); p.err = service.Run(ctx) }()
	t.Cleanup(func() { p.stop(); <-p.ended })
	select {
	case <-service.Ready():
	case <-p.ended:
		require.NoError(t, p.err)
	}
	return p
}

// leave ends the process as a signal would.
func (p *process) leave(t *testing.T) {
	t.Helper()
	p.stop()
	<-p.ended
	require.NoError(t, p.err, p.name)
}

// crash cuts the process off in the middle of what it does.
func (p *process) crash() {
	p.conn.Close()
	p.stop()
	<-p.ended // with whatever error
}

// metric is the sum of a metric over its labels.
func (p *process) metric(t *testing.T, name string) int {
	t.Helper()
	families, err := p.metrics.Gather()
	require.NoError(t, err)
	sum := 0.0
	for _, f := range families {
		if f.GetName() == name {
			for _, m := range f.GetMetric() {
				sum += m.GetCounter().GetValue() + m.GetGauge().GetValue()
			}
		}
	}
	return int(sum)
}

func (w *world) admission(t *testing.T) *process {
	t.Helper()
	p := &process{name: "admission", conn: w.connect(t), metrics: prometheus.NewRegistry()}
	return p.admission(t, engine.Config(&http.Client{Transport: w.engine.HTTPClient()}, region), w.table, w.clock.read,
		admission.Tuning{FeedHeartbeat: 100 * time.Millisecond})
}

// admission makes the process an admission node with its control plane.
func (p *process) admission(t *testing.T, db aws.Config, tableName string, source store.ClockSource, tuning admission.Tuning) *process {
	t.Helper()
	log := slog.New(slog.DiscardHandler)
	store, clock, err := store.Clocked(db, "admission", source, p.metrics)
	require.NoError(t, err)
	s, err := admission.New(admission.Config{
		NATS: p.conn, DynamoDB: store, Table: tableName, Clock: clock, Log: log, Metrics: p.metrics, Version: "0.0.0", Tuning: tuning,
		Control: control.Open(control.Options{DynamoDB: store, Table: tableName, Clock: clock, Publish: p.conn.Publish, Log: log}),
	})
	require.NoError(t, err)
	return run(t, p, s)
}

// relay starts one; others that live are seen to after a moment.
func (w *world) relay(t *testing.T, name string, tuning relay.Tuning, options ...nats.Option) *process {
	t.Helper()
	p := &process{name: name, conn: w.connect(t, options...), metrics: prometheus.NewRegistry()}
	tuning.Poll, tuning.Survey, tuning.MemberTTL = 5*time.Millisecond, 20*time.Millisecond, 200*time.Millisecond
	tuning.StoreTimeout, tuning.PublishTimeout, tuning.MaxBackoff = time.Second, 500*time.Millisecond, 50*time.Millisecond
	r, err := relay.New(relay.Config{
		NATS: p.conn, DynamoDB: engine.Config(w.reads, region), Table: w.table, Member: name,
		Now: w.clock.now, Log: slog.New(slog.DiscardHandler), Metrics: p.metrics, Tuning: tuning,
	})
	require.NoError(t, err)
	return run(t, p, r)
}

func (w *world) aggregator(t *testing.T, name string) *process {
	t.Helper()
	return w.aggregatorWith(t, name, members())
}

func (w *world) aggregatorWith(t *testing.T, name string, feed feed.Tuning) *process {
	t.Helper()
	p := &process{name: name, conn: w.connect(t), metrics: prometheus.NewRegistry()}
	a, err := aggregator.New(aggregator.Config{
		NATS: p.conn, DynamoDB: engine.Config(w.writes, region), Table: w.table, Member: name,
		Now: w.clock.now, Log: slog.New(slog.DiscardHandler), Metrics: p.metrics,
		Tuning: aggregator.Tuning{StoreTimeout: 200 * time.Millisecond, Feed: feed},
	})
	require.NoError(t, err)
	return run(t, p, a)
}

// members are the times of a group in tests: a third of the defaults, and less.
func members() feed.Tuning {
	return feed.Tuning{
		Batch: 64, Heartbeat: 100 * time.Millisecond, MemberTTL: time.Second, PinTTL: time.Second, AckWait: time.Second,
		Poll: 100 * time.Millisecond, MaxBackoff: 100 * time.Millisecond, DrainTimeout: 5 * time.Second,
	}
}

// patience is how long a test waits for what must come: only a hang takes that
// long.
const patience = 2 * time.Minute

// mustBeCounted waits until the snapshots are what the ledger wants, and requires
// that they are still when nobody has anything to do any more.
func (w *world) mustBeCounted(t *testing.T) {
	t.Helper()
	look := time.NewTicker(50 * time.Millisecond)
	defer look.Stop()
	for end := time.Now().Add(patience); time.Now().Before(end) && !reflect.DeepEqual(w.ledger.Totals(), w.snapshots(t)); {
		<-look.C
	}
	w.mustBeQuiet(t)
	w.writes.Wait() // writes that come late
	require.Equal(t, w.ledger.Totals(), w.snapshots(t))
}

// mustBeQuiet waits until every record in the feed is acknowledged.
func (w *world) mustBeQuiet(t *testing.T) {
	t.Helper()
	stream, err := w.jetstream(t).Stream(t.Context(), events.StreamName)
	require.NoError(t, err)
	natstest.Drained(t, stream)
}
