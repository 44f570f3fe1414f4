package main

import (
	"context"
	"fmt"
	"log/slog"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/nats-io/nats.go"
	"github.com/prometheus/client_golang/prometheus"
	"go.opentelemetry.io/otel/trace"

	"github.com/tidegate/tidegate/internal/audit/archive"
	"github.com/tidegate/tidegate/internal/process"
)

// node holds the connections and tools a service runs on; the flags of its command
// configure the service itself. A zero flag means the service's own default, as in
// `tidegate up`.
type node struct {
	nats    natsFlags
	via     []nats.Option // how to reach NATS, where that is not over the network
	table   string
	store   aws.Config
	archive *archive.Archive // nil without an archive
	log     *slog.Logger
	metrics prometheus.Registerer
	traces  trace.TracerProvider // nil without tracing
}

// service runs until its context ends. It closes its connection to NATS.
type service interface {
	Run(ctx context.Context) error
	Ready() <-chan struct{}
}

// maker creates a service that owns the connection nc.
type maker func(n node, nc *nats.Conn) (service, error)

// nodeFlags configure the connections of a service that uses the table.
type nodeFlags struct {
	natsFlags
	monitorFlags
	storeFlags
	adminFlags
}

// node connects as the flags say.
func (f nodeFlags) node(ctx context.Context, o output) (node, error) {
	n, err := f.adminFlags.node(f.natsFlags, o)
	if err != nil {
		return node{}, err
	}
	f.warn(ctx, n.log)
	n.table = f.Table
	n.store, err = f.aws(ctx, n.log)
	return n, err
}

// node connects a service that does not use the table.
func (f adminFlags) node(on natsFlags, o output) (node, error) {
	if err := checkListen("--admin-listen", f.AdminListen); err != nil {
		return node{}, err
	}
	log, err := f.logger(o)
	return node{nats: on, log: log}, err
}

// serve runs a service and its admin listener until ctx ends. It logs the message
// once the service is ready, with where it stands.
func (n node) serve(ctx context.Context, admin adminFlags, name string, create maker, message string, where ...any) error {
	return admin.serve(ctx, n.log, name, func(ctx context.Context, _ *process.Admin, registry *prometheus.Registry, ready func()) error {
		n.metrics = registry
		return n.run(ctx, name, create, func() {
			ready()
			stands := append(append([]any{"nats", n.nats.where()}, where...), "admin", admin.AdminListen)
			n.log.InfoContext(ctx, message, stands...) //nolint:sloglint // the callers' are constants
		})
	})
}

// run runs a service until ctx ends; it calls ready once the service is.
func (n node) run(ctx context.Context, name string, create maker, ready func()) error {
	nc, err := n.nats.dialService(ctx, name, n.log, n.via...)
	if err != nil {
		return err
	}
	made, err := create(n, nc)
	if err != nil {
		nc.Close()
		return fmt.Errorf("make the service: %w", err)
	}
	ended := make(chan error, 1)
	go func() { ended <- made.Run(ctx) }()
	select {
	case <-made.Ready():
		ready()
		return <-ended
	case err := <-ended:
		return err
	}
}
