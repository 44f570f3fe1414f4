package main

import (
	"context"
	"fmt"
	"log/slog"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/nats-io/nats.go"
	"github.com/prometheus/client_golang/prometheus"
	"go.opentelemetry.io/otel/trace"

	"github.com/tidegate/tidegate/internal/archive"
	"github.com/tidegate/tidegate/internal/process"
)

// node is what a service stands on; the flags of its command say how it works. Each
// command makes its service of both, and where its flags are zero the service's own
// defaults hold, as they do in `tidegate up`.
type node struct {
	nats    natsFlags
	via     []nats.Option // how to reach NATS, where that is not over the network
	table   string
	store   aws.Config
	archive *archive.Archive // nil: none
	log     *slog.Logger
	metrics prometheus.Registerer
	traces  trace.TracerProvider // nil: none
}

// service is one of those in services. It closes its connection to NATS.
type service interface {
	Run(ctx context.Context) error
	Ready() <-chan struct{}
}

// maker makes a service whose connection to NATS is nc, its own.
type maker func(n node, nc *nats.Conn) (service, error)

// nodeFlags say what a service on the table stands on.
type nodeFlags struct {
	natsFlags
	monitorFlags
	storeFlags
	adminFlags
}

// node is what the flags describe.
func (f nodeFlags) node(ctx context.Context, o output) (node, error) {
	n, err := f.adminFlags.node(f.natsFlags, o)
	if err != nil {
		return node{}, err
	}
	f.warn(ctx, n.log)
	n.table = f.Table
	n.store, err = f.aws(ctx)
	return n, err
}

// node is what a service without a table stands on.
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
	nc, err := n.nats.dialService(ctx, "tidegate "+name, n.log, n.via...)
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
