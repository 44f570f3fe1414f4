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
	"github.com/tidegate/tidegate/services/aggregator"
)

type aggregatorCmd struct {
	natsFlags
	storeFlags
	adminFlags
	feedFlags
	Keep    time.Duration `name:"keep-usage" default:"2160h" placeholder:"TIME" help:"How long a usage snapshot is kept after its window; default: 2160h (90 days)."`
	Monthly bool          `name:"monthly" help:"Keep monthly usage too."`
}

func (aggregatorCmd) Help() string {
	return `Follows the change feed, so that a relay must run too. Start as many as you like, 64 share the work at most: they count each change once, and each takes over when another one ends.`
}

// Run aggregates until ctx ends.
func (c aggregatorCmd) Run(ctx context.Context, o output) error {
	if err := checkListen("--admin-listen", c.AdminListen); err != nil {
		return err
	}
	if c.Keep <= 0 {
		return usageError{errors.New("--keep-usage must be above 0")}
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
	n := aggregatorNode{nats: c.natsFlags, table: c.Table, store: cfg, log: log, retention: retention, keep: c.Keep, monthly: c.Monthly}
	return c.serve(ctx, log, "aggregator", func(ctx context.Context, registry *prometheus.Registry, ready func()) error {
		return n.run(ctx, registry, func() {
			ready()
			log.InfoContext(ctx, "the aggregator is ready", "nats", c.where(), "table", c.Table, "admin", c.AdminListen)
		})
	})
}

// aggregatorNode is one aggregator and what it stands on.
type aggregatorNode struct {
	nats  natsFlags
	via   []nats.Option // how to reach NATS, where that is not over the network
	table string
	store aws.Config
	log   *slog.Logger

	retention consume.Retention
	keep      time.Duration
	monthly   bool
}

// run aggregates until ctx ends; it calls ready once the feed is followed.
func (n aggregatorNode) run(ctx context.Context, metrics prometheus.Registerer, ready func()) error {
	nc, err := n.nats.dialService(ctx, "tidegate aggregator", n.log, n.via...)
	if err != nil {
		return err
	}
	service, err := aggregator.New(aggregator.Config{
		NATS: nc, DynamoDB: n.store, Table: n.table, Member: nuid.Next(), Version: thisVersion().Version, Now: time.Now, Log: n.log, Metrics: metrics,
		Keep: n.keep, Retention: n.retention, Tuning: aggregator.Tuning{Monthly: n.monthly},
	})
	if err != nil {
		nc.Close()
		return fmt.Errorf("make the aggregator: %w", err)
	}
	return runService(ctx, service, ready)
}
