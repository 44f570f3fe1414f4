package main

import (
	"context"
	"errors"
	"log/slog"
	"path/filepath"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/nats-io/nats.go"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/tidegate/tidegate/engine"
	"github.com/tidegate/tidegate/internal/audit/archive"
	"github.com/tidegate/tidegate/internal/embednats"
	"github.com/tidegate/tidegate/internal/process"
	"github.com/tidegate/tidegate/internal/table"
	"github.com/tidegate/tidegate/pkg/api"
)

type upCmd struct {
	Dir            string `name:"dir" default:"./tidegate-data" placeholder:"DIR" help:"Data directory; default: ./tidegate-data."`
	NATSListen     string `name:"nats-listen" default:"${natsListen}" placeholder:"ADDR" help:"Address on which NATS listens; default: ${natsListen}. Port 0 picks a free port."`
	DynamoDBListen string `name:"dynamodb-listen" placeholder:"ADDR" help:"Also serve the DynamoDB API, for the AWS CLI and SDKs, at this address, such as 127.0.0.1:8000."`
	networkFlags
	fsyncFlags
	adminFlags
}

func (upCmd) Help() string {
	return `The data directory keeps everything: the store is in DIR/dynamodb, what NATS JetStream keeps in DIR/nats, audit events that have left the store in DIR/archive.`
}

// Run serves until ctx ends, then stops in order: admission answers its pending
// requests; the relay and the feed's services finish, all at once; then NATS stops, then
// the store's listener and the store.
func (c upCmd) Run(ctx context.Context, o output) error {
	if err := c.check(); err != nil {
		return err
	}
	log, err := c.logger(o)
	if err != nil {
		return err
	}
	traces, flush, err := o.traces(ctx, "tidegate", log)
	if err != nil {
		return err
	}
	defer flush()
	return c.serve(ctx, log, "up", func(ctx context.Context, admin *process.Admin, registry *prometheus.Registry, ready func()) (err error) {
		embedded, closeEngine, err := c.openEngine(c.Dir, log)
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, closeEngine()) }()
		embedded.Register(registry)
		admin.AddVitalCheck("store", func(context.Context) error { return embedded.Health() })
		if c.DynamoDBListen != "" {
			var stop func()
			if c.DynamoDBListen, stop, err = listenHTTP(ctx, "--dynamodb-listen", c.DynamoDBListen, c.guard(embedded), log); err != nil {
				return err
			}
			defer stop()
		}
		ns, err := embednats.Start(ctx, embednats.Options{Listen: c.NATSListen, Dir: filepath.Join(c.Dir, "nats"), Log: log})
		if err != nil {
			return err
		}
		defer ns.Shutdown()
		store := engine.Config(embedded.HTTPClient(), localRegion)
		store.Logger = process.AWSLog(log)
		if err := prepareTable(ctx, dynamodb.NewFromConfig(store), table.DefaultName); err != nil {
			return err
		}
		kept, err := c.openArchive(ctx, log)
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, kept.Close()) }()
		n := node{
			nats: natsFlags{NATS: ns.URL()}, via: []nats.Option{ns.InProcess()}, table: table.DefaultName, store: store,
			archive: kept, log: log, metrics: registry, traces: traces,
		}
		return n.all(ctx, embedded, func() {
			ready()
			c.greet(o, ns.URL())
		})
	})
}

// all runs all services until ctx ends or the disk of their store fails; it calls
// ready once admission is, the last.
func (n node) all(ctx context.Context, embedded *engine.Engine, ready func()) error {
	beside := func(name string, create maker) process.Component {
		return process.Component{Name: name, Beside: true, Run: func(stop, _ context.Context, runs func()) error {
			return n.run(stop, name, create, runs)
		}}
	}
	return process.NewGroup(process.GroupOptions{Log: n.log, Now: time.Now},
		process.Component{Name: "store", Run: func(stop, _ context.Context, runs func()) error {
			runs()
			return untilFailed(stop, embedded)
		}},
		beside("relay", relayCmd{Expects: []string{api.ServiceAggregator}}.make),
		beside("aggregator", aggregatorCmd{}.make),
		beside("archiver", archiverCmd{}.make),
		beside("sharder", sharderCmd{}.make),
		process.Component{Name: "admission", Run: func(stop, _ context.Context, admits func()) error {
			return n.run(stop, "admission", admissionCmd{}.make, func() {
				admits()
				ready()
			})
		}},
	).Run(ctx, context.WithoutCancel(ctx))
}

// openArchive opens the audit archive of the data directory.
func (c upCmd) openArchive(ctx context.Context, log *slog.Logger) (*archive.Archive, error) {
	at, err := folderURL(filepath.Join(c.Dir, "archive"))
	if err != nil {
		return nil, err
	}
	return openArchive(ctx, at, true, log)
}

// check refuses addresses that cannot, or should not, be listened on.
func (c upCmd) check() error {
	err := c.networkFlags.check("--nats-listen", c.NATSListen, fullNATS)
	if err == nil {
		err = c.networkFlags.check("--admin-listen", c.AdminListen, fullAdmin)
	}
	if err == nil && c.DynamoDBListen != "" {
		err = c.networkFlags.check("--dynamodb-listen", c.DynamoDBListen, fullStore)
	}
	return err
}

type dynamodbCmd struct {
	Listen string `name:"listen" default:"127.0.0.1:8000" placeholder:"ADDR" help:"Address to listen on; default: 127.0.0.1:8000. Port 0 picks a free port."`
	Dir    string `name:"dir" placeholder:"DIR" help:"Data directory, such as that of tidegate up; default: none, the store is in memory."`
	networkFlags
	fsyncFlags
	logFlags
}

func (dynamodbCmd) Help() string {
	return `Without --dir it is in memory: what is stored is gone when the process ends. For tests and for several processes on one machine, not for production.`
}

// Run serves until ctx ends.
func (c dynamodbCmd) Run(ctx context.Context, o output) (err error) {
	if err := c.check("--listen", c.Listen, fullStore); err != nil {
		return err
	}
	log, err := c.logger(o)
	if err != nil {
		return err
	}
	embedded, closeEngine, kept, err := c.open(log)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, closeEngine()) }()
	bound, stop, err := listenHTTP(ctx, "--listen", c.Listen, c.guard(withHealth(embedded)), log)
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
	return errors.Join(err, untilFailed(ctx, embedded))
}

// open makes or opens the store. kept says where its data is.
func (c dynamodbCmd) open(log *slog.Logger) (embedded *engine.Engine, closeEngine func() error, kept string, err error) {
	if c.Dir == "" {
		embedded, closeEngine = memoryEngine()
		return embedded, closeEngine, "in memory only", nil
	}
	embedded, closeEngine, err = c.openEngine(c.Dir, log)
	return embedded, closeEngine, "data in " + c.Dir, err
}
