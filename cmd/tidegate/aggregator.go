package main

import (
	"context"
	"errors"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nuid"

	"github.com/tidegate/tidegate/services/aggregator"
)

type aggregatorCmd struct {
	nodeFlags
	feedFlags
	Keep    time.Duration `name:"keep-usage" default:"2160h" placeholder:"TIME" help:"Retention of a usage snapshot after its window; default: 2160h (90 days)."`
	Monthly bool          `name:"monthly" help:"Also keep monthly usage."`
}

func (aggregatorCmd) Help() string {
	return `Follows the change feed, so a relay must run too. Run any number of processes; at most 64 share the work. Each change counts once, and the other processes take over when a process ends.`
}

// Run aggregates until ctx ends.
func (c aggregatorCmd) Run(ctx context.Context, o output) error {
	if c.Keep <= 0 {
		return usageError{errors.New("--keep-usage must be above 0")}
	}
	if err := c.check(); err != nil {
		return err
	}
	n, err := c.node(ctx, o)
	if err != nil {
		return err
	}
	return n.serve(ctx, c.adminFlags, "aggregator", c.make, "the aggregator is ready", "table", c.Table)
}

// make makes an aggregator, which is ready once the feed is followed.
func (c aggregatorCmd) make(n node, nc *nats.Conn) (service, error) {
	return aggregator.New(aggregator.Config{
		NATS: nc, DynamoDB: n.store, Table: n.table, Member: nuid.Next(), Version: thisVersion().Version, Now: time.Now, Log: n.log, Metrics: n.metrics,
		Keep: c.Keep, Retention: c.retention(), Tuning: aggregator.Tuning{Monthly: c.Monthly},
	})
}
