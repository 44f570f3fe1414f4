package aggregator

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/nats-io/nats.go"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/tidegate/tidegate/internal/feed"
	"github.com/tidegate/tidegate/internal/store"
	"github.com/tidegate/tidegate/internal/worker"
	"github.com/tidegate/tidegate/pkg/api"
)

// service names the aggregators' group and their dead letters.
const service = api.ServiceAggregator

// Config holds the settings of an aggregator.
type Config struct {
	NATS     *nats.Conn // the aggregator's own: it is closed when Run ends
	DynamoDB aws.Config
	Table    string
	Member   string // unique among the running aggregators
	Version  string // semantic, for the list of services; 0.0.0 where empty
	Now      func() time.Time
	Log      *slog.Logger
	Metrics  prometheus.Registerer
	// Keep is how long a snapshot is kept after its window. Default 90 days.
	Keep      time.Duration
	Retention feed.Retention // of the feed, where no relay has made it yet
	Tuning    Tuning
}

// Tuning are the sizes and times of an aggregator. Zero values mean the defaults.
type Tuning struct {
	Monthly      bool          // monthly snapshots too
	Writes       int           // snapshots of a batch that are written at once. Default 16
	StoreTimeout time.Duration // of a call to DynamoDB. Default 2 s
	Feed         feed.Tuning
}

const (
	defaultKeep         = 90 * 24 * time.Hour
	defaultWrites       = 16
	defaultStoreTimeout = 2 * time.Second
)

func (cfg Config) withDefaults() Config {
	if cfg.Keep <= 0 {
		cfg.Keep = defaultKeep
	}
	if cfg.Tuning.Writes <= 0 {
		cfg.Tuning.Writes = defaultWrites
	}
	if cfg.Tuning.StoreTimeout <= 0 {
		cfg.Tuning.StoreTimeout = defaultStoreTimeout
	}
	return cfg
}

// Aggregator is an aggregator of a table.
type Aggregator struct {
	worker *worker.Worker
	group  *feed.Group
}

// New makes an aggregator. It does nothing until Run.
func New(cfg Config) (*Aggregator, error) {
	w, err := worker.New(worker.Config{
		Service: service, Description: "Tidegate aggregator: usage, from the change feed",
		NATS: cfg.NATS, Member: cfg.Member, Version: cfg.Version, Now: cfg.Now, Log: cfg.Log, Metrics: cfg.Metrics,
		Required: map[string]bool{"Table": cfg.Table != ""},
	})
	if err != nil {
		return nil, err
	}
	cfg = cfg.withDefaults()
	m, err := newMetrics(cfg.Metrics)
	if err != nil {
		return nil, fmt.Errorf("aggregator: metrics: %w", err)
	}
	cfg.DynamoDB, err = store.Watch(cfg.DynamoDB, store.WatchOptions{Service: service, Metrics: cfg.Metrics, Mono: store.Monotonic(cfg.Now)})
	if err != nil {
		return nil, fmt.Errorf("aggregator: %w", err)
	}
	c, err := newCounter(cfg, m)
	if err != nil {
		return nil, fmt.Errorf("aggregator: %w", err)
	}
	group, err := w.Group(c.apply, cfg.Retention, cfg.Tuning.Feed)
	if err != nil {
		return nil, err
	}
	return &Aggregator{worker: w, group: group}, nil
}

// newCounter makes the handler of the batches.
func newCounter(cfg Config, m *metrics) (*counter, error) {
	st, err := newStore(cfg.DynamoDB, cfg.Table, cfg.Tuning.StoreTimeout, m)
	if err != nil {
		return nil, err
	}
	c := &counter{store: st, keep: cfg.Keep, writes: cfg.Tuning.Writes}
	for _, w := range api.UsageWindows() {
		if w != api.WindowMonthly || cfg.Tuning.Monthly {
			c.windows = append(c.windows, w)
		}
	}
	return c, nil
}

// Ready is closed once the aggregator has joined its group.
func (a *Aggregator) Ready() <-chan struct{} { return a.group.Ready() }

// Run aggregates until ctx ends, then counts the pulled records, hands its lanes
// over and closes the connection. Failures of DynamoDB and NATS are waited out; an
// error means that the feed could not be opened to begin with. It returns when all
// it started has ended.
func (a *Aggregator) Run(ctx context.Context) error {
	return a.worker.Run(ctx, worker.Work{Run: a.group.Run, Status: a.group.Status})
}
