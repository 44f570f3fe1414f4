package admission

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/nats-io/nats.go"
	"github.com/prometheus/client_golang/prometheus"
	"go.opentelemetry.io/otel/trace"

	"github.com/tidegate/tidegate/internal/config"
	"github.com/tidegate/tidegate/internal/outage"
	"github.com/tidegate/tidegate/internal/process"
	"github.com/tidegate/tidegate/internal/shards"
	"github.com/tidegate/tidegate/internal/store"
	"github.com/tidegate/tidegate/pkg/api"
	"github.com/tidegate/tidegate/pkg/events"
	"github.com/tidegate/tidegate/services/admission/duty"
	"github.com/tidegate/tidegate/services/admission/fair"
	"github.com/tidegate/tidegate/services/admission/lease"
	"github.com/tidegate/tidegate/services/admission/live"
)

// Config configures an admission node. Zero values of the sizes and times mean the
// defaults.
type Config struct {
	NATS     *nats.Conn // the service's own: it is drained and closed when Run ends
	DynamoDB aws.Config // its clients set Clock: see store.Clocked
	Table    string
	Clock    *store.Clock
	Log      *slog.Logger
	Metrics  prometheus.Registerer
	Version  string // semantic, as NATS micro wants it
	Tuning   Tuning
	Control  Control // nil: the node serves no admin verbs
	// Traces makes spans of requests and of their calls to the store.
	// Without it there are no spans, and no cost.
	Traces trace.TracerProvider
	// Draining gets a value when the connected NATS server is about to shut down: the node
	// moves to another server. It may be nil.
	Draining <-chan struct{}
}

// Control is the control plane: it serves the admin verbs of a node, on the node's
// table. It is safe for concurrent use.
type Control interface {
	// Serves reports whether Serve knows a verb.
	Serves(v api.Verb) bool
	// Serve answers a request with the body of the reply, or with the refusal.
	Serve(ctx context.Context, q config.AdminRequest) ([]byte, *api.Error)
	// Check returns an error if the node must not start.
	Check(ctx context.Context) error
}

// Tuning holds the sizes and times of a node.
type Tuning struct {
	Queue          int           // acquires and settlements pending at most, a quarter of them for the same bucket. Default 16,384
	Batch          int           // operations in a write of a bucket at most; 1 turns group commit off, to measure its worth. Default: all that wait
	Remember       int64         // memory of bucket states at most, in bytes, least recently used dropped first. Default 160 MB, about 100,000 states of two limits
	ControlCalls   int           // requests for status and administration that run at a time, half of them of one namespace. Default 16
	ControlTimeout time.Duration // of the work for such a request. Default 10 s
	StoreTimeout   time.Duration // of a call to DynamoDB; below the age at which states may deny, 1 s. Default 750 ms
	CreditWindow   time.Duration // how long after its acquire a lease can give back. Default 1 h
	DrainTimeout   time.Duration // how long Run waits for requests under way once it is to stop. Default 10 s
	LeaseReplicas  int           // of the lease records in JetStream. Default 1
	LoadEvery      time.Duration // how often the node reports the load of buckets. Default 1 s
	FeedHeartbeat  time.Duration // how often the change feed sends a heartbeat; after a silence of three times as long, the node follows it again. Default 1 s, at least 100 ms
	LeaseMaxBytes  int64         // of the lease records in JetStream, of all namespaces. Default 1 GiB
}

const (
	bucketShare  = 4 // a bucket may hold a quarter of the queue
	maxStoreCall = 900 * time.Millisecond
	// lingerTime is how long a stopping node still listens. A NATS server that matched a
	// request to the group before the node's successor had subscribed may deliver it only
	// now; without a listener the server would report that there is no responder.
	lingerTime = 50 * time.Millisecond
)

func (t Tuning) withDefaults() Tuning {
	t.Queue = positive(t.Queue, 16384)
	t.Remember = positive(t.Remember, 160_000_000)
	t.ControlCalls = positive(t.ControlCalls, 16)
	t.ControlTimeout = positive(t.ControlTimeout, 10*time.Second)
	t.StoreTimeout = min(positive(t.StoreTimeout, 750*time.Millisecond), maxStoreCall)
	t.CreditWindow = positive(t.CreditWindow, time.Hour)
	t.DrainTimeout = positive(t.DrainTimeout, 10*time.Second)
	t.LeaseReplicas = positive(t.LeaseReplicas, 1)
	t.LeaseMaxBytes = positive(t.LeaseMaxBytes, 1<<30)
	t.LoadEvery = positive(t.LoadEvery, events.LoadEvery*time.Millisecond)
	t.FeedHeartbeat = max(positive(t.FeedHeartbeat, time.Second), live.MinHeartbeat)
	return t
}

func positive[T int | int64 | time.Duration](value, otherwise T) T {
	if value > 0 {
		return value
	}
	return otherwise
}

// Service is an admission node.
type Service struct {
	*env       // shared with the writers and the router
	nats       *nats.Conn
	table      string
	version    string
	router     *router
	balances   *balances
	namespaces *config.NamespaceCache
	control    Control          // nil: the node serves no admin verbs
	controls   *controlCalls    // under way
	client     *dynamodb.Client // retries by itself; not for writes of buckets
	leases     *lease.Desk      // set by Run before the first request
	registerer prometheus.Registerer
	tuning     Tuning
	pending    atomic.Int64   // acquires and settlements not yet answered
	shares     *fair.Shares   // of the room for them, by namespace
	requests   sync.WaitGroup // waits for all requests
	abortWork  context.CancelFunc
	ready      chan struct{}
	memory     *memorySink    // changes of configuration go here
	follower   *live.Follower // of the change feed
	contact    *store.Contact // with the store
	duty       *duty.Watch    // set by Run before the first request
	draining   <-chan struct{}
}

// New makes a node. It does nothing until Run.
func New(cfg Config) (*Service, error) {
	if cfg.NATS == nil || cfg.Table == "" || cfg.Clock == nil || cfg.Log == nil || cfg.Metrics == nil {
		return nil, errors.New("admission: NATS, Table, Clock, Log and Metrics are required")
	}
	m, err := newMetrics(cfg.Metrics)
	if err != nil {
		return nil, fmt.Errorf("admission metrics: %w", err)
	}
	tuning := cfg.Tuning.withDefaults()
	contact := store.NewContact(cfg.Clock.Mono)
	cfg.DynamoDB.HTTPClient = contact.Watch(cfg.DynamoDB.HTTPClient)
	gate := fair.NewGate(turnLimits())
	truth := newStore(cfg.DynamoDB, cfg.Table, tuning.StoreTimeout, cfg.Clock, m, gate)
	namespaces, err := config.NewNamespaceCache(config.NewNamespaces(truth.client, cfg.Table), cfg.Clock.Mono)
	if err != nil {
		return nil, fmt.Errorf("admission: %w", err)
	}
	s := &Service{
		nats:       cfg.NATS,
		table:      cfg.Table,
		version:    cfg.Version,
		client:     dynamodb.NewFromConfig(cfg.DynamoDB),
		registerer: cfg.Metrics,
		namespaces: namespaces,
		tuning:     tuning,
		shares:     fair.NewShares(tuning.Queue),
		control:    cfg.Control,
		controls:   newControlCalls(tuning.ControlCalls, tuning.ControlTimeout),
		ready:      make(chan struct{}),
		contact:    contact,
		draining:   cfg.Draining,
	}
	s.memory = &memorySink{invalidations: new(live.Invalidations), namespaces: namespaces, renewals: m.renewals}
	settings, err := newSettingsSource(config.NewLimitStore(truth.client, cfg.Table, nil), s.memory.invalidations) // it is only read
	if err != nil {
		return nil, fmt.Errorf("admission: %w", err)
	}
	s.env = &env{
		store: truth, settings: settings, clock: cfg.Clock, pool: new(workerPool), nonces: newNonces(), metrics: m,
		log:   process.LogRequestIDs(cfg.Log),
		batch: tuning.Batch, share: tuning.Queue / bucketShare, unsettled: new(atomic.Int64), gate: gate,
	}
	s.follower = live.NewFollower(live.Config{NATS: s.nats, Log: s.log, Heartbeat: tuning.FeedHeartbeat, Sink: s.memory})
	s.abort, s.abortWork = context.WithCancel(context.Background())
	if cfg.Traces != nil {
		s.tracer = cfg.Traces.Tracer(scope)
	}
	s.balances = newBalances(s.env, dynamodb.NewFromConfig(store.AttemptTimeout(cfg.DynamoDB, tuning.StoreTimeout)), cfg.Table)
	trees := shards.NewStore(truth.client, cfg.Table, cfg.Clock.Now, s.nonces.next)
	if s.router, err = newRouter(s.env, trees, tuning.Remember, cfg.NATS.Publish); err != nil {
		return nil, fmt.Errorf("admission: %w", err)
	}
	if err := s.gauges(cfg.Metrics); err != nil {
		return nil, fmt.Errorf("admission metrics: %w", err)
	}
	return s, nil
}

// Ready is closed once the node answers requests.
func (s *Service) Ready() <-chan struct{} { return s.ready }

// Check returns an error if the node, once it is ready, cannot serve as it should: there is no
// room for lease records.
func (s *Service) Check(ctx context.Context) error {
	select {
	case <-s.ready:
		return s.leases.Check(ctx)
	default:
		return nil
	}
}

// Run serves until ctx ends, then stops in order: it takes no more requests, answers the
// pending requests (for DrainTimeout at most), flushes the answers and closes the
// connection. It returns when all its goroutines have ended.
func (s *Service) Run(ctx context.Context) error {
	defer s.abortWork()
	defer s.nats.Close()
	if err := s.prepare(ctx); err != nil {
		return err
	}
	if err := s.follower.Open(); err != nil {
		s.leases.Stop()
		return fmt.Errorf("admission: %w", err)
	}
	l, err := s.listen()
	if err != nil {
		s.nats.Close() // the endpoint may have taken requests before the failure
		s.abortWork()
		s.requests.Wait()
		s.pool.Wait()
		s.leases.Stop()
		return err
	}
	following, stopFollowing := context.WithCancel(ctx)
	defer stopFollowing()
	s.pool.Go(func() { s.leases.Follow(following) })
	followed := make(chan struct{})
	go func() { defer close(followed); s.follower.Run(following) }()
	s.pool.Go(func() { s.router.reportLoads(following, s.tuning.LoadEvery) })
	watched := make(chan struct{})
	go func() { defer close(watched); s.duty.Run(following) }()
	close(s.ready)
	select {
	case <-ctx.Done():
	case <-l.failed:
		err = errors.New("admission: the NATS connection was closed")
	}
	stopFollowing()
	<-followed
	<-watched
	return errors.Join(err, s.drain(l))
}

// prepare checks the table and opens the leases. Its first read of the table gives the
// clock its first bound.
func (s *Service) prepare(ctx context.Context) error {
	if s.control != nil {
		if err := outage.Await(ctx, s.log, "admission: the table", s.control.Check); err != nil {
			return err
		}
	}
	var err error
	s.leases, err = lease.Open(ctx, lease.Config{
		NATS: s.nats, DynamoDB: s.client, Table: s.table, Clock: s.clock, Log: s.log, Metrics: s.registerer, Nonce: s.nonces.next,
		Replicas: s.tuning.LeaseReplicas, MaxBytes: s.tuning.LeaseMaxBytes, CreditWindow: s.tuning.CreditWindow, WriteTimeout: s.tuning.StoreTimeout,
	})
	if err != nil {
		return fmt.Errorf("admission: %w", err)
	}
	return nil
}

// drain ends the node without losing an answer. The node learns of changed configuration
// to the end. The guard of the lease records serves pending settlements, and stops after
// them.
func (s *Service) drain(l *listener) error {
	ctx, cancel := context.WithTimeout(context.Background(), s.tuning.DrainTimeout)
	defer cancel()
	linger := time.NewTimer(lingerTime)
	defer linger.Stop()
	select {
	case <-linger.C:
	case <-l.failed:
	}
	errStop := l.stop(ctx)
	answered := make(chan struct{})
	go func() {
		defer close(answered)
		s.requests.Wait()
		s.pool.Wait()
	}()
	select {
	case <-answered:
	case <-ctx.Done():
		s.log.Warn("requests under way are aborted", "pending", s.pending.Load())
		s.abortWork()
		<-answered
	}
	s.leases.Stop()
	if errors.Is(errStop, errAway) {
		s.log.Warn("stopped while NATS was away: callers may not have got the last answers")
		return nil
	}
	return errors.Join(errStop, s.nats.FlushTimeout(time.Second))
}
