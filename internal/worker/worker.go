package worker

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/tidegate/tidegate/internal/feed"
	"github.com/tidegate/tidegate/internal/leader"
	"github.com/tidegate/tidegate/internal/outage"
	"github.com/tidegate/tidegate/pkg/api"
)

// Config holds the settings that all services share.
type Config struct {
	Service     string     // names the group, its dead letters and the errors
	Description string     // for the list of services
	NATS        *nats.Conn // the worker's own: Run closes it
	Member      string     // unique among the running workers of the service
	Version     string     // semantic, for the list of services; 0.0.0 if empty
	Now         func() time.Time
	Log         *slog.Logger
	Metrics     prometheus.Registerer
	Required    map[string]bool // whether the service has each of its own required settings, by name
}

// check returns an error that names the missing settings.
func (c Config) check() error {
	var missing []string
	for _, setting := range []struct {
		name string
		set  bool
	}{
		{"NATS", c.NATS != nil}, {"Member", c.Member != ""}, {"Now", c.Now != nil}, {"Log", c.Log != nil}, {"Metrics", c.Metrics != nil},
	} {
		if !setting.set {
			missing = append(missing, setting.name)
		}
	}
	for name, set := range c.Required {
		if !set {
			missing = append(missing, name)
		}
	}
	if len(missing) > 0 {
		slices.Sort(missing)
		return fmt.Errorf("%s: %s are required", c.Service, strings.Join(missing, ", "))
	}
	return nil
}

// Worker is a process of a service.
type Worker struct {
	cfg Config
	js  jetstream.JetStream
}

// New returns a worker. It does nothing until Run.
func New(cfg Config) (*Worker, error) {
	if err := cfg.check(); err != nil {
		return nil, err
	}
	if err := leader.CheckConnection(cfg.NATS); err != nil {
		return nil, fmt.Errorf("%s: %w", cfg.Service, err)
	}
	js, err := jetstream.New(cfg.NATS)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", cfg.Service, err)
	}
	return &Worker{cfg: cfg, js: js}, nil
}

// JetStream returns the JetStream of the worker's connection.
func (w *Worker) JetStream() jetstream.JetStream { return w.js }

// Group returns a member of the service's group, which hands batches of the feed to handle.
func (w *Worker) Group(handle func(context.Context, *feed.Batch) error, r feed.Retention, t feed.Tuning) (*feed.Group, error) {
	group, err := feed.New(feed.Config{
		JetStream: w.js, Service: w.cfg.Service, Member: w.cfg.Member,
		Kinds: feed.KindsOf(w.cfg.Service), Forgetful: feed.IsForgetful(w.cfg.Service), Handle: handle,
		Now: w.cfg.Now, Log: w.cfg.Log, Metrics: w.cfg.Metrics, Retention: r, Tuning: t,
	})
	if err != nil {
		return nil, fmt.Errorf("%s: %w", w.cfg.Service, err)
	}
	return group, nil
}

// Work is the part of a worker that its service defines.
type Work struct {
	// Open prepares the work before the list of services shows the worker. An outage is
	// waited out: Open is called again. Nil does nothing.
	Open func(context.Context) error
	// Run works until ctx ends and then finishes the work in progress.
	Run func(context.Context) error
	// Status reports the present state to the list of services.
	Status func(context.Context) api.ServiceStatus
}

// Run opens the work, lists the worker among the instances and runs the work until ctx
// ends. It closes the connection. An error that follows the end of ctx is part of the
// stop and is dropped.
func (w *Worker) Run(ctx context.Context, work Work) error {
	defer w.cfg.NATS.Close()
	if err := w.run(ctx, work); err != nil && ctx.Err() == nil {
		return fmt.Errorf("%s: %w", w.cfg.Service, err)
	}
	return nil
}

func (w *Worker) run(ctx context.Context, work Work) error {
	if work.Open != nil {
		if err := outage.Await(ctx, w.cfg.Log, w.cfg.Service, work.Open); err != nil {
			return err
		}
	}
	leave, err := Join(w.cfg.NATS, Instance{
		Service: w.cfg.Service, Version: w.cfg.Version, Description: w.cfg.Description, Status: work.Status, Log: w.cfg.Log,
	})
	if err != nil {
		return err
	}
	defer leave()
	return work.Run(ctx)
}

// Register registers the collectors of a service.
func Register(r prometheus.Registerer, collectors ...prometheus.Collector) error {
	var errs []error
	for _, c := range collectors {
		errs = append(errs, r.Register(c))
	}
	return errors.Join(errs...)
}
