package main

import (
	"context"
	"fmt"
	"log/slog"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nuid"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/tidegate/tidegate/internal/consume"
	"github.com/tidegate/tidegate/services/sharder"
)

type sharderCmd struct {
	natsFlags
	storeFlags
	adminFlags
	feedFlags
}

func (sharderCmd) Help() string {
	return `Follows the change feed, so that a relay must run too. Start two or more, 64 share the work at most: each step is made once, and each takes over when another one ends. Without any, buckets are divided once DynamoDB throttles them, and stay divided.`
}

// Run watches over shards until ctx ends.
func (c sharderCmd) Run(ctx context.Context, o output) error {
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
	n := sharderNode{nats: c.natsFlags, table: c.Table, store: cfg, log: log, retention: retention}
	return c.serve(ctx, log, "sharder", func(ctx context.Context, registry *prometheus.Registry, ready func()) error {
		return n.run(ctx, registry, func() {
			ready()
			log.InfoContext(ctx, "the sharder is ready", "nats", c.where(), "table", c.Table, "admin", c.AdminListen)
		})
	})
}

// sharderNode is one sharder and what it stands on.
type sharderNode struct {
	nats  natsFlags
	via   []nats.Option // how to reach NATS, where that is not over the network
	table string
	store aws.Config
	log   *slog.Logger

	retention consume.Retention
}

// run watches over shards until ctx ends; it calls ready once the feed is followed.
func (n sharderNode) run(ctx context.Context, metrics prometheus.Registerer, ready func()) error {
	nc, err := n.nats.dialService(ctx, "tidegate sharder", n.log, n.via...)
	if err != nil {
		return err
	}
	service, err := sharder.New(sharder.Config{
		NATS: nc, DynamoDB: n.store, Table: n.table, Member: nuid.Next(), Version: thisVersion().Version,
		Clock: systemClock(), Log: n.log, Metrics: metrics, Retention: n.retention,
	})
	if err != nil {
		nc.Close()
		return fmt.Errorf("make the sharder: %w", err)
	}
	return runService(ctx, service, ready)
}
