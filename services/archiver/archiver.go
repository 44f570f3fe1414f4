package archiver

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/tidegate/tidegate/internal/audit/archive"
	"github.com/tidegate/tidegate/internal/feed"
	"github.com/tidegate/tidegate/internal/worker"
	"github.com/tidegate/tidegate/pkg/api"
)

// service names the archivers' group and their dead letters.
const service = api.ServiceArchiver

// Config holds the settings of an archiver.
type Config struct {
	NATS      *nats.Conn       // the archiver's own: it is closed when Run ends
	Archive   *archive.Archive // it stays open when Run ends
	Member    string           // unique among the running archivers
	Version   string           // semantic, for the list of services; 0.0.0 where empty
	Now       func() time.Time
	Log       *slog.Logger
	Metrics   prometheus.Registerer
	Retention feed.Retention // of the feed, where no relay has made it yet
	Tuning    Tuning
}

// Tuning are the sizes and times of an archiver. Zero values mean the defaults.
type Tuning struct {
	StoreTimeout time.Duration // of the objects of a batch. Default 30 s
	Writes       int           // objects of a batch that are written at once. Default 8
	// Feed has the size and the age of a batch: Batch, 512 records by default, and
	// Linger, 5 s by default; below 0 a batch holds the records that are there.
	Feed feed.Tuning
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

// Archiver is an archiver of a table.
type Archiver struct {
	cfg    Config
	worker *worker.Worker
	group  *feed.Group
}

// New makes an archiver. It does nothing until Run.
func New(cfg Config) (*Archiver, error) {
	w, err := worker.New(worker.Config{
		Service: service, Description: "Tidegate archiver: audit events that have left the table",
		NATS: cfg.NATS, Member: cfg.Member, Version: cfg.Version, Now: cfg.Now, Log: cfg.Log, Metrics: cfg.Metrics,
		Required: map[string]bool{"Archive": cfg.Archive != nil},
	})
	if err != nil {
		return nil, err
	}
	cfg.Tuning = cfg.Tuning.withDefaults()
	m, err := newMetrics(cfg.Metrics)
	if err != nil {
		return nil, fmt.Errorf("archiver: metrics: %w", err)
	}
	batches := &writer{archive: cfg.Archive, timeout: cfg.Tuning.StoreTimeout, writes: cfg.Tuning.Writes, metrics: m}
	group, err := w.Group(batches.store, cfg.Retention, cfg.Tuning.Feed)
	if err != nil {
		return nil, err
	}
	return &Archiver{cfg: cfg, worker: w, group: group}, nil
}

// Ready is closed once the archiver has joined its group.
func (a *Archiver) Ready() <-chan struct{} { return a.group.Ready() }

// Run archives until ctx ends, then stores the pulled records, hands its lanes over
// and closes the connection. Failures of the archive and NATS are waited out, from the
// start on; an error means that the archive cannot be written, or the feed not be opened,
// with these settings. It returns when all it started has ended.
func (a *Archiver) Run(ctx context.Context) error {
	return a.worker.Run(ctx, worker.Work{Open: a.check, Run: a.group.Run, Status: a.group.Status})
}

// check looks whether the archive can be used, before anything depends on it.
func (a *Archiver) check(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, a.cfg.Tuning.StoreTimeout)
	defer cancel()
	return a.cfg.Archive.CheckWritable(ctx)
}
