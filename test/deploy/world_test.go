package deploy_test

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/nats-io/nats.go"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/tidegate/tidegate/engine"
	"github.com/tidegate/tidegate/engine/fault"
	"github.com/tidegate/tidegate/internal/audit/archive"
	"github.com/tidegate/tidegate/internal/audit/archive/archivetest"
	"github.com/tidegate/tidegate/internal/config"
	"github.com/tidegate/tidegate/internal/control"
	"github.com/tidegate/tidegate/internal/feed"
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
	resource = "gpt-4"
	region   = "us-east-1"
)

// world is a store and an admission node on a NATS server with permissions.
type world struct {
	nats    natsServer
	engine  *engine.Engine
	calls   *fault.Transport     // of everybody to the store
	objects *archivetest.S3      // the audit archive's
	record  map[string]*recorder // of each role's calls, before the fault layer
}

// The roles that have a policy of their own, deploy/aws/ROLE-policy.json. A
// service's is named as its NATS user.
const setupRole = "setup"

func roles() []string {
	return []string{setupRole, admissionUser, relayUser, aggregatorUser, sharderUser, archiverUser}
}

// store is the store as a role asks it.
func (w *world) store(role string) aws.Config { return engine.Config(w.record[role], region) }

func newWorld(t *testing.T, tenants ...string) *world {
	t.Helper()
	setPasswords(t, tenants...)
	return newWorldOn(t, startNATS(t, natsFiles(t, tenants...)), tenants...)
}

// newWorldOn is newWorld on a server that runs.
func newWorldOn(t *testing.T, nats natsServer, tenants ...string) *world {
	t.Helper()
	w := &world{nats: nats, record: map[string]*recorder{}, objects: archivetest.New(t)}
	w.engine = engine.New(engine.Options{Now: time.Now})
	w.calls = fault.New(fault.Options{Next: w.engine.HTTPClient(), Now: time.Now})
	for _, role := range roles() {
		w.record[role] = newRecorder(w.calls)
	}
	db := dynamodb.NewFromConfig(w.store(setupRole))
	require.NoError(t, table.CreateTable(t.Context(), db, table.DefaultName))
	require.NoError(t, control.MarkSchema(t.Context(), db, table.DefaultName))
	for _, name := range append(tenants, api.DefaultNamespace) {
		_, err := config.NewNamespaces(db, table.DefaultName).Ensure(t.Context(), name)
		require.NoError(t, err)
	}
	return w
}

// runAdmission runs a node, with its own permissions, until stop is called or
// the test ends. When stop returns, the node has sent all its answers. A node
// may do all that it tries.
func (w *world) runAdmission(t *testing.T) (stop func()) {
	t.Helper()
	nc, refusals := w.service(t, admissionUser)
	registry, log := prometheus.NewRegistry(), slog.New(slog.DiscardHandler)
	store, clock, err := store.Clocked(w.store(admissionUser), "admission", clock(), registry)
	require.NoError(t, err)
	service, err := admission.New(admission.Config{
		NATS: nc, DynamoDB: store, Table: table.DefaultName, Clock: clock, Log: log, Metrics: registry, Version: "0.0.0",
		Control: control.Open(control.Options{
			DynamoDB: store, Table: table.DefaultName, Clock: clock, Publish: nc.Publish, Log: log,
			TrustRequestInfo: true, Archive: w.archive(t, admissionUser),
		}),
	})
	require.NoError(t, err)
	return run(t, service, refusals)
}

// runRelay runs a relay in the same way.
func (w *world) runRelay(t *testing.T) (stop func()) {
	t.Helper()
	nc, refusals := w.service(t, relayUser)
	service, err := relay.New(relay.Config{
		NATS: nc, DynamoDB: w.store(relayUser), Table: table.DefaultName, Member: "one",
		Now: time.Now, Log: slog.New(slog.DiscardHandler), Metrics: prometheus.NewRegistry(),
		Tuning: relay.Tuning{Poll: time.Millisecond},
	})
	require.NoError(t, err)
	return run(t, service, refusals)
}

// runAggregator runs an aggregator in the same way.
func (w *world) runAggregator(t *testing.T, member string) (stop func()) {
	t.Helper()
	nc, refusals := w.service(t, aggregatorUser)
	service, err := aggregator.New(aggregator.Config{
		NATS: nc, DynamoDB: w.store(aggregatorUser), Table: table.DefaultName, Member: member,
		Now: time.Now, Log: slog.New(slog.DiscardHandler), Metrics: prometheus.NewRegistry(),
		Tuning: aggregator.Tuning{Feed: feed.Tuning{
			Heartbeat: 100 * time.Millisecond, Poll: 100 * time.Millisecond, MaxBackoff: 100 * time.Millisecond,
		}},
	})
	require.NoError(t, err)
	return run(t, service, refusals)
}

// archive is the audit archive as a role uses it.
func (w *world) archive(t *testing.T, role string) *archive.Archive {
	t.Helper()
	a, err := archive.Open(t.Context(), w.objects.URL(archivetest.Bucket), archive.Options{AWS: func(ctx context.Context, region string) (aws.Config, error) {
		cfg, err := archivetest.AWS(ctx, region)
		cfg.HTTPClient = objectRecorder{w.record[role]}
		return cfg, err
	}})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, a.Close()) })
	return a
}

// runArchiver runs an archiver in the same way.
func (w *world) runArchiver(t *testing.T, member string) (stop func()) {
	t.Helper()
	nc, refusals := w.service(t, archiverUser)
	service, err := archiver.New(archiver.Config{
		NATS: nc, Archive: w.archive(t, archiverUser), Member: member,
		Now: time.Now, Log: slog.New(slog.DiscardHandler), Metrics: prometheus.NewRegistry(),
		Tuning: archiver.Tuning{Feed: feed.Tuning{
			Heartbeat: 100 * time.Millisecond, Poll: 100 * time.Millisecond, MaxBackoff: 100 * time.Millisecond, Linger: 100 * time.Millisecond,
		}},
	})
	require.NoError(t, err)
	return run(t, service, refusals)
}

// runSharder runs a sharder in the same way.
func (w *world) runSharder(t *testing.T, member string) (stop func()) {
	t.Helper()
	nc, refusals := w.service(t, sharderUser)
	service, err := sharder.New(sharder.Config{
		NATS: nc, DynamoDB: w.store(sharderUser), Table: table.DefaultName, Member: member,
		Clock: clock(), Log: slog.New(slog.DiscardHandler), Metrics: prometheus.NewRegistry(),
		Tuning: sharder.Tuning{Feed: feed.Tuning{
			Heartbeat: 100 * time.Millisecond, Poll: 100 * time.Millisecond, MaxBackoff: 100 * time.Millisecond,
		}},
	})
	require.NoError(t, err)
	return run(t, service, refusals)
}

// clock is this machine's.
func clock() store.ClockSource {
	start := time.Now()
	return func() store.ClockReading {
		now := time.Now()
		return store.ClockReading{Wall: now.Round(0), Mono: now.Sub(start)}
	}
}

// service is a connection of a service, and what the server refused it.
func (w *world) service(t *testing.T, user string) (nc *nats.Conn, refusals func() []string) {
	t.Helper()
	var mu sync.Mutex
	var refused []string // guarded by mu
	nc = w.nats.connect(t, user, nats.ErrorHandler(func(_ *nats.Conn, _ *nats.Subscription, err error) {
		if errors.Is(err, nats.ErrBadHeaderMsg) {
			return // of a caller's request
		}
		mu.Lock()
		defer mu.Unlock()
		refused = append(refused, err.Error())
	}))
	return nc, func() []string {
		mu.Lock()
		defer mu.Unlock()
		return slices.Clone(refused)
	}
}

// run runs a service until stop is called or the test ends.
func run(t *testing.T, service interface {
	Run(ctx context.Context) error
	Ready() <-chan struct{}
}, refusals func() []string,
) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	ended := make(chan error, 1)
	go func() { ended <- service.Run(ctx) }()
	select {
	case <-service.Ready():
	case err := <-ended:
		cancel()
		require.NoError(t, err)
		t.Fatal("the service ended before it was ready")
	}
	stop = sync.OnceFunc(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("the service did not end in order: %v", err)
		}
		assert.Empty(t, refusals(), "what the service does and may not")
	})
	t.Cleanup(stop)
	return stop
}

// client asks as a user for a tenant's namespace.
func (w *world) client(t *testing.T, user, tenant string, options ...tidegate.Option) *tidegate.Client {
	t.Helper()
	nc := w.nats.connect(t, user)
	client, err := tidegate.New(nc, append([]tidegate.Option{tidegate.WithNamespace(tenant), tidegate.WithTimeout(patience)}, options...)...)
	require.NoError(t, err)
	return client
}

// operator asks as the operator.
func (w *world) operator(t *testing.T) tidegate.Operator {
	t.Helper()
	client, err := tidegate.New(w.nats.connect(t, operatorUser), tidegate.WithTimeout(patience))
	require.NoError(t, err)
	return client.Operator()
}
