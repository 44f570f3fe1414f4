package archiver

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/tidegate/tidegate/internal/audit/archive"
	"github.com/tidegate/tidegate/internal/consume"
	"github.com/tidegate/tidegate/internal/roster"
	"github.com/tidegate/tidegate/pkg/api"
)

// service names the archivers' group and their dead letters.
const service = api.ServiceArchiver

// Config is what an archiver needs.
type Config struct {
	NATS      *nats.Conn       // the archiver's own: it is closed when Run ends
	Archive   *archive.Archive // it stays open when Run ends
	Member    string           // unique among the running archivers
	Version   string           // semantic, for the list of services; 0.0.0 where empty
	Now       func() time.Time
	Log       *slog.Logger
	Metrics   prometheus.Registerer
	Retention consume.Retention // of the feed, where no relay has made it yet
	Tuning    Tuning
}

// Tuning are the sizes and times of an archiver. Zero values mean the defaults.
type Tuning struct {
	StoreTimeout time.Duration // of the objects of one batch. Default 30 s
	Writes       int           // objects of one batch that are written at once. Default 8
	// Feed has the size and the age of a batch: Batch, 512 records by default, and
	// Linger, 5 s by default; below 0 a batch is what is there.
	Feed consume.Tuning
}

const (
	defaultStoreTimeout = 30 * time.Second
	defaultWrites       = 8
	defaultBatch        = 512
	defaultLinger       = 5 * time.Second
)

func (t Tuning) withDefaults() Tuning {
	if t.StoreTimeout <= 0 {
		t.StoreTimeout = defaultStoreTimeout
	}
	if t.Writes <= 0 {
		t.Writes = defaultWrites
	}
	if t.Feed.Batch <= 0 {
		t.Feed.Batch = defaultBatch
	}
	if t.Feed.Linger == 0 {
		t.Feed.Linger = defaultLinger
	}
	return t
}

// Archiver is one of the archivers of a table.
type Archiver struct {
	cfg   Config
	group *consume.Group
}

// New makes an archiver. It does nothing until Run.
func New(cfg Config) (*Archiver, error) {
	if cfg.NATS == nil || cfg.Archive == nil || cfg.Member == "" || cfg.Now == nil || cfg.Log == nil || cfg.Metrics == nil {
		return nil, errors.New("archiver: NATS, Archive, Member, Now, Log and Metrics are required")
	}
	cfg.Tuning = cfg.Tuning.withDefaults()
	js, err := jetstream.New(cfg.NATS)
	if err != nil {
		return nil, fmt.Errorf("archiver: %w", err)
	}
	m, err := newMetrics(cfg.Metrics)
	if err != nil {
		return nil, fmt.Errorf("archiver: metrics: %w", err)
	}
	w := &writer{archive: cfg.Archive, timeout: cfg.Tuning.StoreTimeout, writes: cfg.Tuning.Writes, metrics: m}
	group, err := consume.New(consume.Config{
		JetStream: js, Service: service, Member: cfg.Member, Kinds: consume.KindsOf(service), Handle: w.store,
		Now: cfg.Now, Log: cfg.Log, Metrics: cfg.Metrics, Retention: cfg.Retention, Tuning: cfg.Tuning.Feed,
	})
	if err != nil {
		return nil, fmt.Errorf("archiver: %w", err)
	}
	return &Archiver{cfg: cfg, group: group}, nil
}

// Ready is closed once the archiver has joined its group.
func (a *Archiver) Ready() <-chan struct{} { return a.group.Ready() }

// Run archives until ctx ends, then stores what it has pulled, hands its lanes over
// and closes the connection. Failures of the archive and NATS are waited out; an error
// means that the archive cannot be written or the feed not be opened to begin with. It
// returns when all it started has ended.
func (a *Archiver) Run(ctx context.Context) error {
	defer a.cfg.NATS.Close()
	if err := a.check(ctx); err != nil {
		if ctx.Err() != nil {
			return nil // it was told to stop
		}
		return fmt.Errorf("archiver: %w", err)
	}
	leave, err := roster.Join(a.cfg.NATS, roster.Entry{
		Service: service, Version: a.cfg.Version, Description: "Tidegate archiver: audit events that have left the table",
		Status: a.group.Status, Log: a.cfg.Log,
	})
	if err != nil {
		return fmt.Errorf("archiver: %w", err)
	}
	defer leave()
	err = a.group.Run(ctx)
	if err != nil && ctx.Err() == nil {
		return fmt.Errorf("archiver: %w", err)
	}
	return nil
}

// check looks whether the archive can be used, before anything depends on it.
func (a *Archiver) check(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, a.cfg.Tuning.StoreTimeout)
	defer cancel()
	return a.cfg.Archive.CheckWritable(ctx)
}
