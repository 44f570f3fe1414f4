package sharder

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/nats-io/nats.go"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/tidegate/tidegate/internal/audit"
	"github.com/tidegate/tidegate/internal/config"
	"github.com/tidegate/tidegate/internal/feed"
	"github.com/tidegate/tidegate/internal/shards"
	"github.com/tidegate/tidegate/internal/store"
	"github.com/tidegate/tidegate/internal/worker"
	"github.com/tidegate/tidegate/pkg/api"
	"github.com/tidegate/tidegate/pkg/events"
	"github.com/tidegate/tidegate/pkg/keys"
)

// service names the sharders' group and their dead letters.
const service = api.ServiceSharder

// Config holds the settings of a sharder.
type Config struct {
	NATS      *nats.Conn // the sharder's own: it is closed when Run ends
	DynamoDB  aws.Config
	Table     string
	Member    string // unique among the running sharders
	Version   string // semantic, for the list of services; 0.0.0 where empty
	Clock     store.ClockSource
	Log       *slog.Logger
	Metrics   prometheus.Registerer
	Retention feed.Retention // of the feed, where no relay has made it yet
	Tuning    Tuning
}

// Tuning are the sizes and times of a sharder. Zero values mean the defaults.
type Tuning struct {
	Remember int           // divided buckets known at most, and as many others; least recently written dropped first. Default 20,000
	Steps    int           // steps under way at once. Default 16
	Look     time.Duration // how often plans are made. Default 250 ms
	Survey   time.Duration // between two searches for divided buckets without writes. Default 1 h
	Feed     feed.Tuning
}

const (
	defaultRemember = 20_000
	defaultSteps    = 16
	defaultLook     = 250 * time.Millisecond
	defaultSurvey   = time.Hour
	// stepTime is how long a step may take, with all its repeats.
	stepTime = 8 * time.Second
)

func (t Tuning) withDefaults() Tuning {
	if t.Remember <= 0 {
		t.Remember = defaultRemember
	}
	if t.Steps <= 0 {
		t.Steps = defaultSteps
	}
	if t.Look <= 0 {
		t.Look = defaultLook
	}
	if t.Survey <= 0 {
		t.Survey = defaultSurvey
	}
	return t
}

// Sharder is a sharder of a table.
type Sharder struct {
	cfg     Config
	clock   *store.Clock
	tracker *tracker
	worker  *worker.Worker
	group   *feed.Group
	client  *dynamodb.Client
	shards  *shards.Store
	limits  *config.LimitStore
	metrics *metrics

	boot   string // random, part of every nonce
	writes atomic.Uint64

	slots chan struct{}  // a step under way holds a slot
	steps sync.WaitGroup // under way
}

// New makes a sharder. It does nothing until Run.
func New(cfg Config) (*Sharder, error) {
	if cfg.Clock == nil {
		return nil, errors.New("sharder: Clock is required")
	}
	cfg.Tuning = cfg.Tuning.withDefaults()
	s := &Sharder{cfg: cfg, clock: store.NewClock(cfg.Clock), boot: rand.Text()[:8], slots: make(chan struct{}, cfg.Tuning.Steps)}
	w, err := worker.New(worker.Config{
		Service: service, Description: "Tidegate sharder: how many shards a bucket has",
		NATS: cfg.NATS, Member: cfg.Member, Version: cfg.Version, Now: s.clock.Wall, Log: cfg.Log, Metrics: cfg.Metrics,
		Required: map[string]bool{"Table": cfg.Table != ""},
	})
	if err != nil {
		return nil, err
	}
	s.worker = w
	watched, err := store.Watch(cfg.DynamoDB, store.WatchOptions{Service: service, Metrics: cfg.Metrics, Mono: s.clock.Mono})
	if err != nil {
		return nil, fmt.Errorf("sharder: %w", err)
	}
	watched.HTTPClient = s.clock.Watch(watched.HTTPClient)
	s.client = dynamodb.NewFromConfig(watched, func(o *dynamodb.Options) { o.Retryer = aws.NopRetryer{} })
	s.shards = shards.NewStore(s.client, cfg.Table, s.clock.Now, s.nonce)
	s.limits = config.NewLimitStore(s.client, cfg.Table, audit.NewLog(s.client, cfg.Table, s.clock.Time))
	if s.tracker, err = newTracker(cfg.Tuning.Remember); err != nil {
		return nil, fmt.Errorf("sharder: %w", err)
	}
	if s.metrics, err = newMetrics(cfg.Metrics, s.tracker); err != nil {
		return nil, fmt.Errorf("sharder: metrics: %w", err)
	}
	if s.group, err = w.Group(s.follow, cfg.Retention, cfg.Tuning.Feed); err != nil {
		return nil, err
	}
	return s, nil
}

// nonce marks a write as this sharder's.
func (s *Sharder) nonce() string { return s.boot + "." + strconv.FormatUint(s.writes.Add(1), 36) }

// Ready is closed once the sharder has joined its group.
func (s *Sharder) Ready() <-chan struct{} { return s.group.Ready() }

// Run follows the feed until ctx ends, then ends the steps under way, hands its
// lanes over and closes the connection. Failures of DynamoDB and NATS are waited
// out, from the start on; an error means that the feed cannot be opened with these
// settings. It returns when all it started has ended.
func (s *Sharder) Run(ctx context.Context) error {
	return s.worker.Run(ctx, worker.Work{Run: s.run, Status: s.group.Status})
}

func (s *Sharder) run(ctx context.Context) error {
	unsubscribe, err := s.listen()
	if err != nil {
		return err
	}
	defer unsubscribe()
	working, stop := context.WithCancel(ctx)
	var loops sync.WaitGroup
	loops.Go(func() { s.survey(working) })
	loops.Go(func() { s.look(working) })
	err = s.group.Run(ctx)
	stop()
	loops.Wait()
	s.steps.Wait()
	return err
}

// follow notes a batch of the feed. It never fails: a record that it does not
// understand is of no use to it.
func (s *Sharder) follow(_ context.Context, b *feed.Batch) error {
	for _, r := range b.Records {
		s.tracker.note(r)
	}
	return nil
}

// look makes plans until ctx ends.
func (s *Sharder) look(ctx context.Context) {
	tick := time.NewTicker(s.cfg.Tuning.Look)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			s.runOnce(ctx)
		}
	}
}

// runOnce starts the steps that are to be made now, as many as there are slots free.
// A quarter of them is kept for doublings, so that no doubling waits for a step that can wait.
func (s *Sharder) runOnce(ctx context.Context) {
	free := cap(s.slots) - len(s.slots) // no other goroutine takes a slot
	for _, e := range s.tracker.due(s.nowMs(), s.owns, free, free-cap(s.slots)/4) {
		s.slots <- struct{}{}
		s.steps.Go(func() {
			defer func() { <-s.slots }()
			s.carry(ctx, e)
		})
	}
}

// owns reports whether a bucket's lane is this sharder's.
func (s *Sharder) owns(key keys.Bucket) bool { return s.group.Owns(events.Lane(key)) }

// nowMs is the store's time as far as it is known: plans, unlike writes, can be made
// by a clock that is a little wrong.
func (s *Sharder) nowMs() int64 {
	now, _ := s.clock.Now()
	return now.Time().UnixMilli()
}
