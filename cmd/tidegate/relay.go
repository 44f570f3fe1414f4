package main

import (
	"context"
	"errors"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nuid"

	"github.com/tidegate/tidegate/internal/consume"
	"github.com/tidegate/tidegate/services/relay"
)

type relayCmd struct {
	nodeFlags
	feedFlags
}

// feedFlags say how much of the change feed is kept: the relay that starts last sets
// it; other services do where there is no feed yet.
type feedFlags struct {
	Replicas int           `name:"feed-replicas" default:"1" placeholder:"N" help:"JetStream replicas of the change feed: 3 on a cluster; default: 1."`
	MaxAge   time.Duration `name:"feed-max-age" default:"24h" placeholder:"TIME" help:"How long the feed keeps a change that a service did not get to; default: 24h."`
	MaxBytes int64         `name:"feed-max-bytes" default:"1073741824" placeholder:"BYTES" help:"Size of the feed at most; when it is full the relay waits; default: 1073741824."`
}

func (f feedFlags) check() error {
	if f.Replicas < 1 || f.MaxAge <= 0 || f.MaxBytes < 1 {
		return usageError{errors.New("--feed-replicas, --feed-max-age and --feed-max-bytes must be above 0")}
	}
	return nil
}

func (f feedFlags) retention() consume.Retention {
	return consume.Retention{Replicas: f.Replicas, MaxAge: f.MaxAge, MaxBytes: f.MaxBytes}
}

func (relayCmd) Help() string {
	return `Start as many as you like: they share the work, and each takes over when another one ends.`
}

// Run relays until ctx ends.
func (c relayCmd) Run(ctx context.Context, o output) error {
	if err := c.check(); err != nil {
		return err
	}
	n, err := c.node(ctx, o)
	if err != nil {
		return err
	}
	return n.serve(ctx, c.adminFlags, "relay", c.make, "the relay is ready", "table", c.Table)
}

// make makes a relay, which is ready once the table's stream is followed.
func (c relayCmd) make(n node, nc *nats.Conn) (service, error) {
	return relay.New(relay.Config{
		NATS: nc, DynamoDB: n.store, Table: n.table, Member: nuid.Next(), Version: thisVersion().Version,
		Now: time.Now, Log: n.log, Metrics: n.metrics, Retention: c.retention(),
	})
}
