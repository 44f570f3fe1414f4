package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nuid"

	"github.com/tidegate/tidegate/internal/feed"
	"github.com/tidegate/tidegate/services/relay"
)

type relayCmd struct {
	nodeFlags
	feedFlags
	Expects []string `name:"feed-expects" default:"aggregator" placeholder:"SERVICES" help:"Services for which the feed keeps changes before their first process has started, such as aggregator,archiver; none for an empty list; default: aggregator."`
}

// expects returns the services that changes wait for from the first relay on.
func (c relayCmd) expects() ([]string, error) {
	if len(c.Expects) == 0 || slices.Equal(c.Expects, []string{"none"}) {
		return nil, nil
	}
	for _, service := range c.Expects {
		if len(feed.KindsOf(service)) == 0 {
			return nil, usageError{fmt.Errorf("--feed-expects: %q does not follow the feed", service)}
		}
	}
	return c.Expects, nil
}

// feedFlags say how much of the change feed is kept: the relay that starts last sets
// it; other services do where there is no feed yet.
type feedFlags struct {
	Replicas int           `name:"feed-replicas" default:"1" placeholder:"N" help:"JetStream replicas of the change feed: 3 on a cluster; default: 1."`
	MaxAge   time.Duration `name:"feed-max-age" default:"24h" placeholder:"TIME" help:"Retention of a change that a service has not handled; default: 24h."`
	MaxBytes int64         `name:"feed-max-bytes" default:"1073741824" placeholder:"BYTES" help:"Maximum size of the feed in bytes: three quarters for bucket changes, which beyond that wait in the table's stream, the rest for the other kinds; default: 1073741824."`
}

func (f feedFlags) check() error {
	if f.Replicas < 1 || f.MaxAge <= 0 || f.MaxBytes < 1 {
		return usageError{errors.New("--feed-replicas, --feed-max-age and --feed-max-bytes must be above 0")}
	}
	return nil
}

func (f feedFlags) retention() feed.Retention {
	return feed.Retention{Replicas: f.Replicas, MaxAge: f.MaxAge, MaxBytes: f.MaxBytes}
}

func (relayCmd) Help() string {
	return `Run any number of processes: they share the work, and the others take over when a process ends.`
}

// Run relays until ctx ends.
func (c relayCmd) Run(ctx context.Context, o output) error {
	if err := c.check(); err != nil {
		return err
	}
	if _, err := c.expects(); err != nil {
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
	expects, err := c.expects()
	if err != nil {
		return nil, err
	}
	return relay.New(relay.Config{
		NATS: nc, DynamoDB: n.store, Table: n.table, Member: nuid.Next(), Version: thisVersion().Version,
		Now: time.Now, Log: n.log, Metrics: n.metrics, Retention: c.retention(), Expects: expects,
	})
}
