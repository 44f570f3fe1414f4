package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nuid"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/tidegate/tidegate/internal/consume"
	"github.com/tidegate/tidegate/services/relay"
)

type relayCmd struct {
	natsFlags
	storeFlags
	adminFlags
	feedFlags
}

// feedFlags say how much of the change feed is kept: the relay that starts last sets
// it; other services do where there is no feed yet.
type feedFlags struct {
	Replicas int           `name:"feed-replicas" default:"1" placeholder:"N" help:"JetStream replicas of the change feed: 3 on a cluster; default: 1."`
	MaxAge   time.Duration `name:"feed-max-age" default:"24h" placeholder:"TIME" help:"How long the feed keeps a change that a service did not get to; default: 24h."`
	MaxBytes int64         `name:"feed-max-bytes" default:"1073741824" placeholder:"BYTES" help:"Size of the feed at most; when it is full the relay waits; default: 1073741824."`
}

func (f feedFlags) retention() (consume.Retention, error) {
	if f.Replicas < 1 || f.MaxAge <= 0 || f.MaxBytes < 1 {
		return consume.Retention{}, usageError{errors.New("--feed-replicas, --feed-max-age and --feed-max-bytes must be above 0")}
	}
	return consume.Retention{Replicas: f.Replicas, MaxAge: f.MaxAge, MaxBytes: f.MaxBytes}, nil
}

func (relayCmd) Help() string {
	return `Start as many as you like: they share the work, and each takes over when another one ends.`
}

// Run relays until ctx ends.
func (c relayCmd) Run(ctx context.Context, o output) error {
	if err := checkListen("--admin-listen", c.AdminListen); err != nil {
		return err
	}
	retention, err := c.retention()
	if err != nil {
		return err
	}
	log, err := c.logger(o)
	if err != nil {
		return err
	}
	cfg, err := c.aws(ctx)
	if err != nil {
		return err
	}
	r := relayNode{nats: c.natsFlags, table: c.Table, store: cfg, log: log, retention: retention}
	return c.serve(ctx, log, "relay", func(ctx context.Context, registry *prometheus.Registry, ready func()) error {
		return r.run(ctx, registry, func() {
			ready()
			log.InfoContext(ctx, "the relay is ready", "nats", c.where(), "table", c.Table, "admin", c.AdminListen)
		})
	})
}

// relayNode is one relay and what it stands on.
type relayNode struct {
	nats  natsFlags
	via   []nats.Option // how to reach NATS, where that is not over the network
	table string
	store aws.Config
	log   *slog.Logger

	retention consume.Retention
}

// run relays until ctx ends; it calls ready once the table's stream is followed.
func (n relayNode) run(ctx context.Context, metrics prometheus.Registerer, ready func()) error {
	nc, err := n.nats.dialService(ctx, "tidegate relay", n.log, n.via...)
	if err != nil {
		return err
	}
	service, err := relay.New(relay.Config{
		NATS: nc, DynamoDB: n.store, Table: n.table, Member: nuid.Next(), Version: thisVersion().Version,
		Now: time.Now, Log: n.log, Metrics: metrics, Retention: n.retention,
	})
	if err != nil {
		nc.Close()
		return fmt.Errorf("make the relay: %w", err)
	}
	return runService(ctx, service, ready)
}

// runService runs a service and calls ready once it is.
func runService(ctx context.Context, service interface {
	Run(ctx context.Context) error
	Ready() <-chan struct{}
}, ready func(),
) error {
	ended := make(chan error, 1)
	go func() { ended <- service.Run(ctx) }()
	select {
	case <-service.Ready():
		ready()
		return <-ended
	case err := <-ended:
		return err
	}
}
