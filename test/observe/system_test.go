package observe_test

import (
	"context"
	"log/slog"
	"net/http"
	"sync"
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
	"github.com/tidegate/tidegate/internal/audit/archive/archivetest"
	"github.com/tidegate/tidegate/internal/config"
	"github.com/tidegate/tidegate/internal/control"
	"github.com/tidegate/tidegate/internal/embednats/natstest"
	"github.com/tidegate/tidegate/internal/feed"
	"github.com/tidegate/tidegate/internal/process"
	"github.com/tidegate/tidegate/internal/store"
	"github.com/tidegate/tidegate/internal/table"
	"github.com/tidegate/tidegate/pkg/api"
	tidegate "github.com/tidegate/tidegate/pkg/client"
	"github.com/tidegate/tidegate/services/admission"
	"github.com/tidegate/tidegate/services/aggregator"
	"github.com/tidegate/tidegate/services/archiver"
	"github.com/tidegate/tidegate/services/relay"
	"github.com/tidegate/tidegate/services/sharder"
)

const (
	region = "us-east-1"
	// queue is how many requests may wait on the node; one bucket has a quarter.
	queue = 128
	// storeTimeout is how long the node waits for the store.
	storeTimeout = 300 * time.Millisecond
	// patience is how long a metric may take to move; only a fault takes that long.
	patience = time.Minute
)

// system is a store, a NATS server, and processes of the services.
type system struct {
	t      *testing.T
	direct *dynamodb.Client // beside all faults
	engine *engine.Engine
	nats   *natstest.Server
	nc     *nats.Conn // a caller's
	client *tidegate.Client
	js     jetstream.JetStream

	objects  *archivetest.S3
	embedded *disked

	admission, relay, aggregator, sharder *road
	clockAhead                            atomic.Int64 // of the admission node, nanoseconds

	mu         sync.Mutex
	registries []*prometheus.Registry // guarded by mu; of all processes there ever were
}

// road is one service's way to the store.
type road struct {
	*fault.Transport
	panics atomic.Int32 // requests that are to panic

	mu   sync.Mutex
	fate func(operation string) fault.Fault // guarded by mu; nil: none
}

func newRoad(embedded *engine.Engine) *road {
	r := &road{Transport: fault.New(fault.Options{Next: embedded.HTTPClient(), Now: time.Now})}
	r.Match(func(operation string, _ []byte) fault.Fault {
		r.mu.Lock()
		defer r.mu.Unlock()
		if r.fate == nil {
			return fault.Fault{}
		}
		return r.fate(operation)
	})
	return r
}

// Do sends a request, or panics.
func (r *road) Do(request *http.Request) (*http.Response, error) {
	if r.panics.Add(-1) >= 0 {
		panic("as a bug would")
	}
	return r.Transport.Do(request)
}

// each lets all requests of an operation meet a fault, until it is mended.
func (r *road) each(operation string, f fault.Fault) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.fate = func(op string) fault.Fault {
		if op == operation {
			return f
		}
		return fault.Fault{}
	}
}

// all lets every request meet a fault, until it is mended.
func (r *road) all(f fault.Fault) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.fate = func(string) fault.Fault { return f }
}

// once lets the next request of an operation meet a fault.
func (r *road) once(operation string, f fault.Fault) {
	r.mu.Lock()
	defer r.mu.Unlock()
	struck := false
	r.fate = func(op string) fault.Fault {
		if op == operation && !struck {
			struck = true
			return f
		}
		return fault.Fault{}
	}
}

func (r *road) mend() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.fate = nil
}

// newSystem starts a store and a NATS server, and no process.
func newSystem(t *testing.T) *system {
	t.Helper()
	s := &system{t: t, engine: engine.New(engine.Options{Now: time.Now}), objects: archivetest.New(t)}
	s.direct = dynamodb.NewFromConfig(engine.Config(s.engine.HTTPClient(), region))
	s.admission, s.relay, s.aggregator, s.sharder = newRoad(s.engine), newRoad(s.engine), newRoad(s.engine), newRoad(s.engine)
	require.NoError(t, table.CreateTable(t.Context(), s.direct, table.DefaultName))
	require.NoError(t, control.MarkSchema(t.Context(), s.direct, table.DefaultName))
	_, err := config.NewNamespaces(s.direct, table.DefaultName).Ensure(t.Context(), api.DefaultNamespace)
	require.NoError(t, err)
	s.nats = natstest.Start(t)
	s.nc = s.connect()
	s.client, err = tidegate.New(s.nc, tidegate.WithTimeout(patience))
	require.NoError(t, err)
	s.js, err = jetstream.New(s.nc)
	require.NoError(t, err)
	return s
}

func (s *system) connect() *nats.Conn {
	s.t.Helper()
	return s.nats.Connect(s.t, nats.ErrorHandler(nil))
}

// registry is a new process's.
func (s *system) registry() *prometheus.Registry {
	registry := process.NewRegistry("1.2.3")
	s.mu.Lock()
	defer s.mu.Unlock()
	s.registries = append(s.registries, registry)
	return registry
}

// serviceProcess is a service that runs.
type serviceProcess struct {
	conn  *nats.Conn
	stop  context.CancelFunc
	ended chan struct{}
}

// crash cuts a process off in the middle of what it does.
func (p *serviceProcess) crash() {
	p.conn.Close()
	p.stop()
	<-p.ended
}

func (s *system) run(conn *nats.Conn, service interface {
	Run(ctx context.Context) error
	Ready() <-chan struct{}
}, err error,
) *serviceProcess {
	s.t.Helper()
	require.NoError(s.t, err)
	ctx, cancel := context.WithCancel(context.WithoutCancel(s.t.Context()))
	p := &serviceProcess{conn: conn, stop: cancel, ended: make(chan struct{})}
	go func() {
		defer close(p.ended)
		_ = service.Run(ctx) // a crash is an error
	}()
	s.t.Cleanup(func() { cancel(); <-p.ended })
	select {
	case <-service.Ready():
	case <-p.ended:
		s.t.Fatal("a service ended before it was ready")
	}
	return p
}

func (s *system) startAdmission() *serviceProcess {
	s.t.Helper()
	nc := s.connect()
	registry, log := s.registry(), slog.New(slog.DiscardHandler)
	store, clock, err := store.Clocked(s.config(s.admission), "admission", clock(&s.clockAhead), registry)
	require.NoError(s.t, err)
	service, err := admission.New(admission.Config{
		NATS: nc, DynamoDB: store, Table: table.DefaultName, Clock: clock, Log: log, Metrics: registry, Version: "1.2.3",
		Tuning:  admission.Tuning{Queue: queue, StoreTimeout: storeTimeout, LeaseMaxBytes: 1_000_000},
		Control: control.Open(control.Options{DynamoDB: store, Table: table.DefaultName, Clock: clock, Publish: nc.Publish, Log: log}),
	})
	return s.run(nc, service, err)
}

func (s *system) startRelay() *serviceProcess {
	s.t.Helper()
	nc := s.connect()
	service, err := relay.New(relay.Config{
		NATS: nc, DynamoDB: s.config(s.relay), Table: table.DefaultName, Member: "relay",
		Now: time.Now, Log: slog.New(slog.DiscardHandler), Metrics: s.registry(),
		Tuning: relay.Tuning{Poll: 5 * time.Millisecond, MaxBackoff: 50 * time.Millisecond, Purge: 50 * time.Millisecond, Checkpoint: 50 * time.Millisecond},
	})
	return s.run(nc, service, err)
}

func (s *system) startAggregator(member string) *serviceProcess {
	s.t.Helper()
	nc := s.connect()
	service, err := aggregator.New(aggregator.Config{
		NATS: nc, DynamoDB: s.config(s.aggregator), Table: table.DefaultName, Member: member,
		Now: time.Now, Log: slog.New(slog.DiscardHandler), Metrics: s.registry(),
		Tuning: aggregator.Tuning{StoreTimeout: storeTimeout, Feed: feed.Tuning{
			Heartbeat: 100 * time.Millisecond, MemberTTL: time.Second, PinTTL: time.Second, AckWait: 10 * time.Second,
			Poll: 100 * time.Millisecond, MaxBackoff: 100 * time.Millisecond, DrainTimeout: 5 * time.Second,
		}},
	})
	return s.run(nc, service, err)
}

func (s *system) startArchiver() *serviceProcess {
	s.t.Helper()
	nc := s.connect()
	service, err := archiver.New(archiver.Config{
		NATS: nc, Archive: s.objects.Open(s.t), Member: "archiver",
		Now: time.Now, Log: slog.New(slog.DiscardHandler), Metrics: s.registry(),
		Tuning: archiver.Tuning{Feed: feed.Tuning{
			Heartbeat: 100 * time.Millisecond, MemberTTL: time.Second, PinTTL: time.Second, AckWait: 10 * time.Second,
			Poll: 100 * time.Millisecond, MaxBackoff: 100 * time.Millisecond, DrainTimeout: 5 * time.Second, Linger: 100 * time.Millisecond,
		}},
	})
	return s.run(nc, service, err)
}

func (s *system) startSharder(member string) *serviceProcess {
	s.t.Helper()
	nc := s.connect()
	service, err := sharder.New(sharder.Config{
		NATS: nc, DynamoDB: s.config(s.sharder), Table: table.DefaultName, Member: member,
		Clock: clock(new(atomic.Int64)), Log: slog.New(slog.DiscardHandler), Metrics: s.registry(),
		Tuning: sharder.Tuning{Feed: feed.Tuning{Heartbeat: 100 * time.Millisecond, Poll: 100 * time.Millisecond, MaxBackoff: 100 * time.Millisecond}},
	})
	return s.run(nc, service, err)
}

// clock is this machine's, set forward by so many nanoseconds.
func clock(ahead *atomic.Int64) store.ClockSource {
	start := time.Now()
	return func() store.ClockReading {
		now := time.Now()
		return store.ClockReading{Wall: now.Round(0).Add(time.Duration(ahead.Load())), Mono: now.Sub(start)}
	}
}

func (*system) config(r *road) aws.Config { return engine.Config(r, region) }

// all are the registries of all processes there ever were.
func (s *system) all() []*prometheus.Registry {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]*prometheus.Registry(nil), s.registries...)
}

// value is the sum of a metric over all its series and processes.
func (s *system) value(name string) float64 {
	s.t.Helper()
	return total(gathered(s.t, s.all())[name])
}

// until waits until a metric is as it should be.
func (s *system) until(name string, is func(float64) bool) {
	s.t.Helper()
	require.Eventually(s.t, func() bool { return is(s.value(name)) }, patience, 5*time.Millisecond, "%s is %v", name, s.value(name))
}
