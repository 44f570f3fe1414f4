package bench

import (
	"context"
	"log/slog"
	"net/http"
	"runtime"
	"strconv"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/nats-io/nats.go"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"

	"github.com/tidegate/tidegate/engine"
	"github.com/tidegate/tidegate/engine/fault"
	"github.com/tidegate/tidegate/internal/audit"
	"github.com/tidegate/tidegate/internal/config"
	"github.com/tidegate/tidegate/internal/control"
	"github.com/tidegate/tidegate/internal/embednats/natstest"
	"github.com/tidegate/tidegate/internal/store"
	"github.com/tidegate/tidegate/internal/table"
	"github.com/tidegate/tidegate/pkg/api"
	tidegate "github.com/tidegate/tidegate/pkg/client"
	"github.com/tidegate/tidegate/services/admission"
)

const (
	resource     = "gpt-4"
	storeLatency = 5 * time.Millisecond
	connections  = 8 // of callers
)

// world is a store and a NATS server, embedded, and what was started on them.
type world struct {
	tb     host
	engine *engine.Engine
	store  http.RoundTripper // the engine, and what stands before it for everybody
	url    string            // of the NATS server
	ns     string            // id of the default namespace
}

// newWorld has limits at the system level: an ample rpm and tpm, unless others
// are given. Both hold more than any benchmark spends, and refill more slowly
// than it does.
func newWorld(tb testing.TB, own ...api.Limit) *world {
	tb.Helper()
	w := newStore(tb, own...)
	w.url = natstest.Start(tb).ClientURL()
	return w
}

// newStore is a world without a NATS server.
func newStore(tb host, own ...api.Limit) *world {
	tb.Helper()
	w := &world{tb: tb, engine: engine.New(engine.Options{Now: time.Now})}
	w.store = w.engine.HTTPClient()
	db := dynamodb.NewFromConfig(engine.Config(w.engine.HTTPClient(), "us-east-1"))
	require.NoError(tb, table.CreateTable(tb.Context(), db, table.DefaultName))
	w.ns = w.tenant(api.DefaultNamespace, own...)
	return w
}

// tenant makes a namespace with limits, and returns its id.
func (w *world) tenant(name string, own ...api.Limit) (id string) {
	tb := w.tb
	tb.Helper()
	db := dynamodb.NewFromConfig(engine.Config(w.engine.HTTPClient(), "us-east-1"))
	id, err := config.NewNamespaces(db, table.DefaultName).Ensure(tb.Context(), name)
	require.NoError(tb, err)
	if len(own) == 0 {
		own = []api.Limit{ample("rpm"), ample("tpm")}
	}
	log := audit.NewLog(db, table.DefaultName, func() (time.Time, error) { return time.Now(), nil })
	_, err = config.NewLimitStore(db, table.DefaultName, log).Set(tb.Context(), id, api.Principal{}, api.LimitsSetRequest{
		LimitsTarget: api.LimitsTarget{System: true}, Limits: own,
	})
	require.NoError(tb, err)
	return id
}

func ample(name string) api.Limit {
	return api.Limit{Name: name, Capacity: api.MaxAmount, RefillAmount: 60, RefillPeriodSeconds: 60}
}

// overflowing is a limit that refills faster than any benchmark spends.
func overflowing(name string) api.Limit {
	return api.Limit{Name: name, Capacity: api.MaxAmount, RefillAmount: 60 * api.MaxRate, RefillPeriodSeconds: 60}
}

func (w *world) connect() *nats.Conn {
	w.tb.Helper()
	nc, err := nats.Connect(w.url, nats.ReconnectBufSize(-1))
	require.NoError(w.tb, err)
	w.tb.Cleanup(nc.Close)
	return nc
}

// conns are the callers' connections.
func (w *world) conns() []*nats.Conn {
	list := make([]*nats.Conn, connections)
	for i := range list {
		list[i] = w.connect()
	}
	return list
}

func (w *world) clients(conns []*nats.Conn) []*tidegate.Client {
	list := make([]*tidegate.Client, len(conns))
	for i, nc := range conns {
		var err error
		list[i], err = tidegate.New(nc)
		require.NoError(w.tb, err)
	}
	return list
}

// echo answers a subject with a reply of so many bytes.
func (w *world) echo(replyBytes int) (subject string) {
	nc, reply := w.connect(), make([]byte, replyBytes)
	subject = "echo." + strconv.Itoa(replyBytes)
	_, err := nc.QueueSubscribe(subject, "echo", func(m *nats.Msg) { _ = m.Respond(reply) }) // an unanswered caller fails
	require.NoError(w.tb, err)
	require.NoError(w.tb, nc.Flush())
	return subject
}

// node is an admission node with a store connection of its own, whose calls
// are delayed, counted and timed.
type node struct {
	tb      host
	store   *timed
	calls   *fault.Transport
	metrics *prometheus.Registry
	stop    func()
	// collected is closed once nothing refers to the stopped node any more.
	collected chan struct{}
}

func (w *world) node(latency time.Duration, tuning admission.Tuning) *node {
	w.tb.Helper()
	n := &node{tb: w.tb, metrics: prometheus.NewRegistry(), collected: make(chan struct{})}
	o := fault.Options{Next: w.store, Now: time.Now, Sleep: exactly}
	if latency > 0 {
		o.Latency = fault.Fixed(latency)
	}
	n.calls = fault.New(o)
	n.store = newTimed(n.calls)
	nc, err := nats.Connect(w.url, nats.ReconnectBufSize(-1))
	require.NoError(w.tb, err)
	log := slog.New(slog.DiscardHandler)
	store, clock, err := store.Clocked(engine.Config(n.store, "us-east-1"), "admission", clock(), n.metrics)
	require.NoError(w.tb, err)
	service, err := admission.New(admission.Config{
		NATS: nc, DynamoDB: store, Table: table.DefaultName, Clock: clock, Log: log, Metrics: n.metrics, Version: "0.0.0", Tuning: tuning,
		Control: control.Open(control.Options{DynamoDB: store, Table: table.DefaultName, Clock: clock, Publish: nc.Publish, Log: log}),
	})
	require.NoError(w.tb, err)
	runtime.AddCleanup(service, func(done chan struct{}) { close(done) }, n.collected)
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- service.Run(ctx) }()
	n.stop = func() {
		cancel()
		err := <-ended
		ended <- nil
		if err != nil {
			w.tb.Error(err)
		}
	}
	w.tb.Cleanup(n.stop)
	select {
	case <-service.Ready():
	case err := <-ended:
		require.NoError(w.tb, err)
	}
	return n
}

// clock is this machine's.
func clock() store.ClockSource {
	start := time.Now()
	return func() store.ClockReading {
		now := time.Now()
		return store.ClockReading{Wall: now.Round(0), Mono: now.Sub(start)}
	}
}

// metric sums a metric of the node, of a histogram its sum, over the label sets
// that have all of the given values.
func (n *node) metric(name string, values ...string) float64 {
	n.tb.Helper()
	families, err := n.metrics.Gather()
	require.NoError(n.tb, err)
	total := 0.0
	for _, family := range families {
		if family.GetName() != name {
			continue
		}
		for _, m := range family.GetMetric() {
			has := map[string]bool{}
			for _, label := range m.GetLabel() {
				has[label.GetValue()] = true
			}
			all := true
			for _, v := range values {
				all = all && has[v]
			}
			if all {
				total += m.GetCounter().GetValue() + m.GetGauge().GetValue() + m.GetHistogram().GetSampleSum() // it has one of them
			}
		}
	}
	return total
}

func minus(a, b fault.Count) fault.Count {
	return fault.Count{
		Calls: a.Calls - b.Calls, Faults: a.Faults - b.Faults, WriteUnits: a.WriteUnits - b.WriteUnits,
		ReadUnits: a.ReadUnits - b.ReadUnits, IndexWriteUnits: a.IndexWriteUnits - b.IndexWriteUnits,
	}
}
