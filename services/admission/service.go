package admission

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"errors"
	"fmt"
	"log/slog"
	"runtime/debug"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/hashicorp/golang-lru/v2/simplelru"
	"github.com/nats-io/nats.go"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/sourcegraph/conc"

	"github.com/tidegate/tidegate/internal/admin"
	"github.com/tidegate/tidegate/internal/limits"
	"github.com/tidegate/tidegate/internal/namespace"
	"github.com/tidegate/tidegate/pkg/api"
	"github.com/tidegate/tidegate/pkg/keys"
)

// Config is what an admission node needs. Zero values of the sizes and times
// mean the defaults.
type Config struct {
	NATS     *nats.Conn // the service's own: it is drained and closed when Run ends
	DynamoDB aws.Config
	Table    string
	Clock    Clock
	Log      *slog.Logger
	Metrics  prometheus.Registerer
	Version  string // semantic, as NATS micro wants it
	Tuning   Tuning
}

// Tuning are the sizes and times of a node.
type Tuning struct {
	Queue         int           // requests pending at most; one bucket holds a quarter of it. Default 16,384
	Remember      int           // bucket states kept in memory at most, least recently used dropped first. Default 100,000
	StoreTimeout  time.Duration // of one call to DynamoDB; below the age states may deny by, 1 s. Default 750 ms
	CreditWindow  time.Duration // how long after its acquire a lease can give back. Default 1 h
	DrainTimeout  time.Duration // how long Run waits for requests under way once it is to stop. Default 10 s
	ClaimReplicas int           // of the claims in JetStream. Default 1
	Listeners     int           // subscriptions that share the decoding. Default 2
}

const (
	bucketShare    = 4 // one bucket may hold a quarter of the queue
	maxTimeout     = time.Minute
	maxStoreCall   = 900 * time.Millisecond
	claimRetention = 2 // claims are kept for that many credit windows,
	minRetention   = time.Minute
)

func (t Tuning) withDefaults() Tuning {
	t.Queue = positive(t.Queue, 16384)
	t.Remember = positive(t.Remember, 100_000)
	t.StoreTimeout = min(positive(t.StoreTimeout, 750*time.Millisecond), maxStoreCall)
	t.CreditWindow = positive(t.CreditWindow, time.Hour)
	t.DrainTimeout = positive(t.DrainTimeout, 10*time.Second)
	t.ClaimReplicas = positive(t.ClaimReplicas, 1)
	t.Listeners = positive(t.Listeners, 2)
	return t
}

func positive[T int | time.Duration](value, otherwise T) T {
	if value > 0 {
		return value
	}
	return otherwise
}

// Service is one admission node.
type Service struct {
	nats         *nats.Conn
	table        string
	version      string
	log          *slog.Logger
	metrics      *metrics
	clock        *storeClock
	store        *store
	limits       *limits.Store
	namespaces   *namespace.Cache
	admin        *admin.Admin
	keyring      *keyring
	claims       *claims // set by Run before the first request
	tuning       Tuning
	boot         string // random, part of every nonce
	sequence     atomic.Uint64
	pending      atomic.Int64    // requests not yet answered
	requests     sync.WaitGroup  // the same, to wait for
	flights      conc.WaitGroup  // everything that works on them
	abort        context.Context //nolint:containedctx // the life of flights, which no single request owns
	abortFlights context.CancelFunc
	ready        chan struct{}

	mu      sync.Mutex
	buckets *simplelru.LRU[keys.Bucket, *committer] // guarded by mu
	// settings are shared by the buckets that one level governs. guarded by mu
	settings *simplelru.LRU[settingsKey, *limits.Resolved]
}

// settingsKey tells settings apart as far as buckets are concerned.
type settingsKey struct {
	fingerprint string
	policy      api.Policy
}

// sharedSettings is how many settings are kept to be shared.
const sharedSettings = 1024

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
	buckets, err := simplelru.NewLRU[keys.Bucket, *committer](tuning.Remember, nil)
	if err != nil {
		return nil, fmt.Errorf("admission: %w", err)
	}
	settings, err := simplelru.NewLRU[settingsKey, *limits.Resolved](sharedSettings, nil)
	if err != nil {
		return nil, fmt.Errorf("admission: %w", err)
	}
	clock := newStoreClock(cfg.Clock)
	watched := cfg.DynamoDB.Copy()
	watched.HTTPClient = clock.Watch(cfg.DynamoDB.HTTPClient)
	client := dynamodb.NewFromConfig(watched)
	namespaces, err := namespace.NewCache(namespace.NewRegistry(client, cfg.Table), clock.Mono)
	if err != nil {
		return nil, fmt.Errorf("admission: %w", err)
	}
	stored := limits.NewStore(client, cfg.Table)
	var boot [6]byte
	_, _ = rand.Read(boot[:])
	s := &Service{
		nats:       cfg.NATS,
		table:      cfg.Table,
		version:    cfg.Version,
		log:        cfg.Log,
		metrics:    m,
		clock:      clock,
		store:      newStore(watched, cfg.Table, tuning.StoreTimeout, clock, m),
		keyring:    newKeyring(client, cfg.Table, clock),
		limits:     stored,
		namespaces: namespaces,
		admin:      admin.New(stored, cfg.NATS.Publish, cfg.Log),
		tuning:     tuning,
		boot:       base64.RawURLEncoding.EncodeToString(boot[:]),
		ready:      make(chan struct{}),
		buckets:    buckets,
		settings:   settings,
	}
	s.abort, s.abortFlights = context.WithCancel(context.Background())
	if err := s.gauges(cfg.Metrics); err != nil {
		return nil, fmt.Errorf("admission metrics: %w", err)
	}
	return s, nil
}

// Ready is closed once the node answers requests.
func (s *Service) Ready() <-chan struct{} { return s.ready }

// Run serves until ctx ends, then stops in order: it takes no more requests,
// answers those it has (for DrainTimeout at most), flushes the answers and
// closes the connection. It returns when all it started has ended.
func (s *Service) Run(ctx context.Context) error {
	defer s.abortFlights()
	defer s.nats.Close()
	if err := s.prepare(ctx); err != nil {
		return err
	}
	l, err := s.listen()
	if err != nil {
		return err
	}
	close(s.ready)
	select {
	case <-ctx.Done():
	case <-l.failed:
		err = errors.New("admission: the NATS connection was closed")
	}
	return errors.Join(err, s.drain(l))
}

// prepare brings what requests rely on: the table, the clock's first bound, the
// signing keys and the claims.
func (s *Service) prepare(ctx context.Context) error {
	if err := s.keyring.load(ctx); err != nil {
		return fmt.Errorf("admission: is the table %q there (tidegate table create)? %w", s.table, err)
	}
	c, err := openClaims(ctx, s.nats, max(claimRetention*s.tuning.CreditWindow, minRetention), 2*s.tuning.StoreTimeout, s.tuning.ClaimReplicas,
		func() time.Time { return s.clock.read().Wall })
	if err != nil {
		return fmt.Errorf("admission: %w", err)
	}
	s.claims = c
	return nil
}

// drain ends the node without losing an answer.
func (s *Service) drain(l *listener) error {
	ctx, cancel := context.WithTimeout(context.Background(), s.tuning.DrainTimeout)
	defer cancel()
	errStop := l.stop(ctx)
	answered := make(chan struct{})
	go func() {
		defer close(answered)
		s.requests.Wait()
		s.flights.Wait()
	}()
	select {
	case <-answered:
	case <-ctx.Done():
		s.log.Warn("requests under way are aborted", "pending", s.pending.Load())
		s.abortFlights()
		<-answered
	}
	return errors.Join(errStop, s.nats.FlushTimeout(time.Second))
}

// committer returns the bucket shard's committer, a new one where none is
// remembered.
func (s *Service) committer(key keys.Bucket) *committer {
	s.mu.Lock()
	defer s.mu.Unlock()
	if c, ok := s.buckets.Get(key); ok {
		return c
	}
	// What a request names is part of its body, which must not live as long.
	key.Entity, key.Resource = strings.Clone(key.Entity), strings.Clone(key.Resource)
	c := &committer{node: s, key: key}
	s.buckets.Add(key, c)
	return c
}

// share returns the same settings for all buckets they govern, to be read only.
func (s *Service) share(r *limits.Resolved) *limits.Resolved {
	key := settingsKey{r.Fingerprint, r.OnUnavailable}
	s.mu.Lock()
	defer s.mu.Unlock()
	if shared, ok := s.settings.Get(key); ok {
		return shared
	}
	s.settings.Add(key, r)
	return r
}

func (s *Service) remembered() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.buckets.Len()
}

// nonce marks one write of this node.
func (s *Service) nonce() string {
	return s.boot + "." + strconv.FormatUint(s.sequence.Add(1), 36)
}

func (s *Service) logStore(ctx context.Context, doing string, key keys.Bucket, err error) {
	s.log.ErrorContext(ctx, "the store failed", "doing", doing, "bucket", key.Key().PK, "error", err)
}

func (s *Service) logPanic(cause any) {
	s.metrics.panics.Inc()
	s.log.Error("recovered from a panic", "cause", fmt.Sprint(cause), "stack", string(debug.Stack()))
}
