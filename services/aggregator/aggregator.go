package aggregator

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/tidegate/tidegate/internal/consume"
	"github.com/tidegate/tidegate/internal/roster"
	"github.com/tidegate/tidegate/internal/store"
	"github.com/tidegate/tidegate/pkg/api"
)

// service names the aggregators' group and their dead letters.
const service = api.ServiceAggregator

// Config is what an aggregator needs.
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
	Retention consume.Retention // of the feed, where no relay has made it yet
	Tuning    Tuning
}

// Tuning are the sizes and times of an aggregator. Zero values mean the defaults.
type Tuning struct {
	Monthly      bool          // monthly snapshots too
	Writes       int           // snapshots of one batch that are written at once. Default 16
	StoreTimeout time.Duration // of one call to DynamoDB. Default 2 s
	Feed         consume.Tuning
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

// Aggregator is one of the aggregators of a table.
type Aggregator struct {
	cfg   Config
	group *consume.Group
}

// New makes an aggregator. It does nothing until Run.
func New(cfg Config) (*Aggregator, error) {
	if cfg.NATS == nil || cfg.Table == "" || cfg.Member == "" || cfg.Now == nil || cfg.Log == nil || cfg.Metrics == nil {
		return nil, errors.New("aggregator: NATS, Table, Member, Now, Log and Metrics are required")
	}
	cfg = cfg.withDefaults()
	js, err := jetstream.New(cfg.NATS)
	if err != nil {
		return nil, fmt.Errorf("aggregator: %w", err)
	}
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
	group, err := consume.New(consume.Config{
		JetStream: js, Service: service, Member: cfg.Member, Kinds: consume.KindsOf(service), Handle: c.apply,
		Now: cfg.Now, Log: cfg.Log, Metrics: cfg.Metrics, Retention: cfg.Retention, Tuning: cfg.Tuning.Feed,
	})
	if err != nil {
		return nil, fmt.Errorf("aggregator: %w", err)
	}
	return &Aggregator{cfg: cfg, group: group}, nil
}

// newCounter makes what handles the batches.
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

// Run aggregates until ctx ends, then counts what it has pulled, hands its lanes
// over and closes the connection. Failures of DynamoDB and NATS are waited out; an
// error means that the feed could not be opened to begin with. It returns when all
// it started has ended.
func (a *Aggregator) Run(ctx context.Context) error {
	defer a.cfg.NATS.Close()
	leave, err := roster.Join(a.cfg.NATS, roster.Entry{
		Service: service, Version: a.cfg.Version, Description: "Tidegate aggregator: usage, from the change feed",
		Status: a.group.Status, Log: a.cfg.Log,
	})
	if err != nil {
		return fmt.Errorf("aggregator: %w", err)
	}
	defer leave()
	err = a.group.Run(ctx)
	if err != nil && ctx.Err() == nil {
		return fmt.Errorf("aggregator: %w", err)
	}
	return nil
}
