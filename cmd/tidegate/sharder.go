package main

import (
	"context"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nuid"

	"github.com/tidegate/tidegate/services/sharder"
)

type sharderCmd struct {
	nodeFlags
	feedFlags
}

func (sharderCmd) Help() string {
	return `Follows the change feed, so a relay must run too. Run two or more processes; at most 64 share the work. Each step is made once, and the other processes take over when a process ends. Without a sharder, buckets are split only once DynamoDB throttles them, and are never merged.`
}

// Run watches over shards until ctx ends.
func (c sharderCmd) Run(ctx context.Context, o output) error {
	if err := c.check(); err != nil {
		return err
	}
	n, err := c.node(ctx, o)
	if err != nil {
		return err
	}
	return n.serve(ctx, c.adminFlags, "sharder", c.make, "the sharder is ready", "table", c.Table)
}

// make makes a sharder, which is ready once the feed is followed.
func (c sharderCmd) make(n node, nc *nats.Conn) (service, error) {
	return sharder.New(sharder.Config{
		NATS: nc, DynamoDB: n.store, Table: n.table, Member: nuid.Next(), Version: thisVersion().Version,
		Clock: systemClock(), Log: n.log, Metrics: n.metrics, Retention: c.retention(),
	})
}
