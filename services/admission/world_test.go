package admission

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"log/slog"
	"net/http"
	"os"
	"strconv"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/nats-io/nats.go"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/trace"

	"github.com/tidegate/tidegate/engine"
	"github.com/tidegate/tidegate/engine/fault"
	"github.com/tidegate/tidegate/internal/audit"
	"github.com/tidegate/tidegate/internal/config"
	"github.com/tidegate/tidegate/internal/control"
	"github.com/tidegate/tidegate/internal/embednats/natstest"
	"github.com/tidegate/tidegate/internal/store"
	"github.com/tidegate/tidegate/internal/table"
	"github.com/tidegate/tidegate/pkg/api"
	"github.com/tidegate/tidegate/pkg/keys"
)

// otherEngine names the environment variable with the address of another
// DynamoDB-compatible engine to run the suite against: make test-dynoxide and
// make test-dynamodb-local set it.
const otherEngine = "TIDEGATE_TEST_DYNAMODB"

const (
	// patience is how long tests wait for what must come, and give a node to answer:
	// only what hangs takes so long.
	patience = api.MaxTimeout
	tickle   = time.Millisecond
)

// world is a store and a NATS server for nodes under test, both real and, unless
// another engine is named, embedded.
type world struct {
	next    http.RoundTripper               // to the store
	config  func(aws.HTTPClient) aws.Config // of clients that reach it through something
	table   string
	client  *dynamodb.Client // beside all faults
	nats    *natstest.Server
	limits  *config.LimitStore
	ns      string               // id of the default namespace
	log     slog.Handler         // of nodes; nil: discarded
	traces  trace.TracerProvider // of nodes; nil: none
	reach   []nats.Option        // how nodes reach NATS
	now     func() time.Time
	clock   func() store.ClockSource // of a node that starts now
	trusts  bool                     // the header that names callers
	control Control                  // of nodes; nil: the real one
	// forgets says that buckets are removed or merged, whose counters are lost then.
	forgets bool
}

func newWorld(t *testing.T) *world {
	t.Helper()
	return newWorldAt(t, &world{now: time.Now, clock: systemClock})
}

// newWorldAt is a world whose time is w's.
func newWorldAt(t *testing.T, w *world) *world {
	t.Helper()
	w.table = "tidegate"
	if endpoint := os.Getenv(otherEngine); endpoint != "" {
		w.useEngine(endpoint)
	} else {
		embedded := engine.New(engine.Options{Now: w.now})
		w.next = embedded.HTTPClient()
		w.config = func(c aws.HTTPClient) aws.Config { return engine.Config(c, "us-east-1") }
	}
	w.client = dynamodb.NewFromConfig(w.config(w.http()))
	require.NoError(t, table.CreateTable(t.Context(), w.client, w.table))
	var err error
	w.ns, err = config.NewNamespaces(w.client, w.table).Ensure(t.Context(), api.DefaultNamespace)
	require.NoError(t, err)
	w.limits = config.NewLimitStore(w.client, w.table, audit.NewLog(w.client, w.table, func() (time.Time, error) { return w.now(), nil }))

	w.nats = natstest.Start(t)
	t.Cleanup(func() { w.checkHeld(t) })
	return w
}

// elsewhere is the same store behind another NATS server, so that a test chooses
// which of two nodes it asks.
func (w *world) elsewhere(t *testing.T) *world {
	t.Helper()
	other := *w
	other.nats = natstest.Start(t)
	return &other
}

// useEngine reaches an engine over loopback; a table of its own keeps the tests
// apart that run at the same time.
func (w *world) useEngine(endpoint string) {
	other := &dated{next: &http.Transport{MaxIdleConnsPerHost: 64}}
	other.edit(func(h http.Header) { h.Set("Date", w.now().UTC().Format(http.TimeFormat)) }) // its own time is the machine's
	w.next = other
	w.config = func(c aws.HTTPClient) aws.Config {
		return aws.Config{
			Region: "us-east-1", HTTPClient: store.OwnBody(c), BaseEndpoint: &endpoint,
			Credentials: credentials.NewStaticCredentialsProvider("tidegate", "tidegate", ""),
		}
	}
	w.table = "tidegate-" + rand.Text()
}

// node is an admission node with faults between it and the store.
type node struct {
	*Service
	faults  *fault.Transport
	metrics *prometheus.Registry
	stop    func() error // gracefully; the error of Run
}

func systemClock() store.ClockSource {
	start := time.Now()
	return func() store.ClockReading {
		now := time.Now()
		return store.ClockReading{Wall: now.Round(0), Mono: now.Sub(start)}
	}
}

func (w *world) node(t *testing.T, tuning Tuning) *node {
	t.Helper()
	return w.nodeWith(t, tuning, fault.Options{})
}

func (w *world) nodeWith(t *testing.T, tuning Tuning, faults fault.Options) *node {
	t.Helper()
	faults.Next, faults.Now = w.next, w.now
	log := slog.New(slog.DiscardHandler)
	if w.log != nil {
		log = slog.New(w.log)
	}
	n := &node{faults: fault.New(faults), metrics: prometheus.NewRegistry()}
	nc := w.nats.Connect(t, w.reach...)
	store, clock, err := store.Clocked(w.config(n.faults), "admission", w.clock(), n.metrics)
	require.NoError(t, err)
	n.Service, err = New(Config{
		NATS: nc, DynamoDB: store, Table: w.table, Clock: clock,
		Log: log, Metrics: n.metrics, Version: "0.0.0", Tuning: tuning, Traces: w.traces,
		Control: w.controlOf(control.Options{DynamoDB: store, Table: w.table, Clock: clock, Publish: nc.Publish, Log: log, TrustRequestInfo: w.trusts}),
	})
	require.NoError(t, err)
	if tuning.StoreTimeout == 0 { // then the store may be as slow as the machine is
		n.tuning.StoreTimeout, n.store.timeout = patience, patience
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	var ended error
	go func() { defer close(done); ended = n.Run(ctx) }()
	n.stop = func() error {
		cancel()
		<-done
		return ended
	}
	t.Cleanup(func() {
		_ = n.stop()
		if testutil.ToFloat64(n.Service.metrics.panics) > 0 {
			t.Error("the node recovered from a panic")
		}
		if left := n.unsettled.Load(); left != 0 {
			t.Errorf("the node stopped with %d settlements that have not ended", left)
		}
	})
	select {
	case <-n.Ready():
	case <-done:
		require.NoError(t, ended)
	}
	return n
}

// controlOf returns the control plane of a node.
func (w *world) controlOf(o control.Options) Control {
	if w.control != nil {
		return w.control
	}
	return control.Open(o)
}

// http returns the way to the store beside all faults.
func (w *world) http() *http.Client { return &http.Client{Transport: w.next} }

// setLimits stores limits of one level, capacity = refill amount, per day
// unless a period in seconds is given.
func (w *world) setLimits(t *testing.T, target api.LimitsTarget, ls ...api.Limit) {
	t.Helper()
	_, err := w.limits.Set(t.Context(), w.ns, api.Principal{}, api.LimitsSetRequest{LimitsTarget: target, Limits: ls})
	require.NoError(t, err)
}

func perDay(name string, tokens int64) api.Limit {
	return api.Limit{Name: name, Capacity: tokens, RefillAmount: tokens, RefillPeriodSeconds: 86400}
}

// item reads a bucket as the store has it, nil for none.
func (w *world) item(t *testing.T, entity, resource string) *table.Bucket {
	t.Helper()
	key := keys.Bucket{Namespace: w.ns, Entity: entity, Resource: resource}
	out, err := w.client.GetItem(t.Context(), table.ReadInput(w.table, key.Key()))
	require.NoError(t, err)
	if len(out.Item) == 0 {
		return nil
	}
	b, err := table.DecodeBucket(out.Item)
	require.NoError(t, err)
	return b
}

// send is one request as any NATS client would make it.
func send(t *testing.T, nc *nats.Conn, verb api.Verb, body string, timeout time.Duration) *nats.Msg {
	t.Helper()
	m := nats.NewMsg(api.Subject(api.DefaultNamespace, verb))
	m.Data = []byte(body)
	m.Header.Set(api.HeaderTimeout, strconv.FormatInt(timeout.Milliseconds(), 10))
	reply, err := nc.RequestMsg(m, timeout+patience)
	require.NoError(t, err)
	noteLease(reply.Data)
	return reply
}

// ask sends a request that must not be refused and decodes its reply.
func ask[T any](t *testing.T, nc *nats.Conn, verb api.Verb, body string) T {
	t.Helper()
	m := send(t, nc, verb, body, patience)
	require.Empty(t, m.Header.Get(api.HeaderErrorCode), "refused: %s", m.Data)
	var reply T
	require.NoError(t, json.Unmarshal(m.Data, &reply), string(m.Data))
	return reply
}

// refused sends a request that must be refused and returns the error.
func refused(t *testing.T, nc *nats.Conn, verb api.Verb, body string, timeout time.Duration) *api.Error {
	t.Helper()
	m := send(t, nc, verb, body, timeout)
	require.NotEmpty(t, m.Header.Get(api.HeaderErrorCode), "answered: %s", m.Data)
	e := api.DecodeError(m.Data)
	require.Equal(t, strconv.Itoa(e.Status()), m.Header.Get(api.HeaderErrorCode))
	require.Equal(t, e.Message, m.Header.Get(api.HeaderError))
	return e
}

func acquire(t *testing.T, nc *nats.Conn, body string) api.AcquireReply {
	t.Helper()
	return ask[api.AcquireReply](t, nc, api.VerbAcquire, body)
}
