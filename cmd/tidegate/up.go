package main

import (
	"context"
	"errors"
	"path/filepath"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/nats-io/nats.go"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/tidegate/tidegate/internal/embednats"
	"github.com/tidegate/tidegate/internal/localdynamo"
	"github.com/tidegate/tidegate/internal/table"
)

type upCmd struct {
	Dir            string `name:"dir" default:"./tidegate-data" placeholder:"DIR" help:"Data directory; default: ./tidegate-data."`
	NATSListen     string `name:"nats-listen" default:"${natsListen}" placeholder:"ADDR" help:"Where NATS listens; default: ${natsListen}. Port 0 takes a free one."`
	DynamoDBListen string `name:"dynamodb-listen" placeholder:"ADDR" help:"Also serve the store to the AWS CLI and the like, on loopback: 127.0.0.1:8000."`
	fsyncFlags
	adminFlags
}

func (upCmd) Help() string {
	return `The data directory keeps everything: the store is in DIR/dynamodb, what NATS JetStream keeps in DIR/nats.`
}

// Run serves until ctx ends, then stops in order: admission answers what it
// has, then NATS, then the store's listener and the store.
func (c upCmd) Run(ctx context.Context, o output) error {
	if err := c.check(); err != nil {
		return err
	}
	log := o.logger()
	return c.serve(ctx, log, "up", func(ctx context.Context, registry *prometheus.Registry, ready func()) (err error) {
		engine, closeEngine, err := c.openEngine(c.Dir, log)
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, closeEngine()) }()
		if c.DynamoDBListen != "" {
			var stop func()
			if c.DynamoDBListen, stop, err = listenHTTP(ctx, "--dynamodb-listen", c.DynamoDBListen, engine, log); err != nil {
				return err
			}
			defer stop()
		}
		ns, err := embednats.Start(ctx, embednats.Options{Listen: c.NATSListen, Dir: filepath.Join(c.Dir, "nats"), Log: log})
		if err != nil {
			return err
		}
		defer ns.Shutdown()
		store := localdynamo.Config(engine.HTTPClient(), localRegion)
		if err := prepareTable(ctx, dynamodb.NewFromConfig(store), table.DefaultName); err != nil {
			return err
		}
		flags := natsFlags{NATS: ns.URL()}
		n := node{nats: flags, via: []nats.Option{ns.InProcess()}, table: table.DefaultName, store: store, log: log}
		return n.run(ctx, registry, func() {
			ready()
			c.greet(o, flags.NATS)
		})
	})
}

// check refuses addresses that cannot be listened on.
func (c upCmd) check() error {
	err := checkListen("--nats-listen", c.NATSListen)
	if err == nil {
		err = checkListen("--admin-listen", c.AdminListen)
	}
	if err == nil && c.DynamoDBListen != "" {
		err = checkLoopback("--dynamodb-listen", c.DynamoDBListen)
	}
	return err
}

type dynamodbCmd struct {
	Listen string `name:"listen" default:"127.0.0.1:8000" placeholder:"ADDR" help:"Where, on loopback; default: 127.0.0.1:8000. Port 0 takes a free one."`
	Dir    string `name:"dir" placeholder:"DIR" help:"Data directory, such as that of tidegate up; default: none, the store is in memory."`
	fsyncFlags
}

func (dynamodbCmd) Help() string {
	return `Without --dir it is in memory: what is stored is gone when the process ends. For tests and for several processes on one machine, not for production.`
}

// Run serves until ctx ends.
func (c dynamodbCmd) Run(ctx context.Context, o output) (err error) {
	if err := checkLoopback("--listen", c.Listen); err != nil {
		return err
	}
	engine, kept := localdynamo.New(localdynamo.Options{Now: time.Now}), "in memory only"
	if c.Dir != "" {
		var closeEngine func() error
		if engine, closeEngine, err = c.openEngine(c.Dir, o.logger()); err != nil {
			return err
		}
		defer func() { err = errors.Join(err, closeEngine()) }()
		kept = "data in " + c.Dir
	}
	bound, stop, err := listenHTTP(ctx, "--listen", c.Listen, engine, o.logger())
	if err != nil {
		return err
	}
	defer stop()
	endpoint := "http://" + bound
	err = o.write(map[string]any{"ready": true, "dynamodb": endpoint}, func(p *page) {
		p.line("The store is ready: DynamoDB %s, %s\n\nTry it in another terminal:\n", endpoint, kept)
		p.line("  %s table create --dynamodb-endpoint %s", quoted(o.self), endpoint)
		p.line("\n%s", howToStop)
	})
	<-ctx.Done()
	return err
}
