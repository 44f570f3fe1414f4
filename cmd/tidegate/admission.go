package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/nats-io/nats.go"
	"github.com/prometheus/client_golang/prometheus"
	"go.opentelemetry.io/otel/trace"

	"github.com/tidegate/tidegate/internal/archive"
	"github.com/tidegate/tidegate/internal/storeclock"
	"github.com/tidegate/tidegate/services/admission"
)

// runCommands run services.
type runCommands struct {
	Up         upCmd         `cmd:"" group:"run" help:"Run everything in one process: NATS, the store, and all services."`
	Admission  admissionCmd  `cmd:"" group:"run" help:"Run an admission node on your NATS and DynamoDB."`
	Relay      relayCmd      `cmd:"" group:"run" help:"Run a relay: the table's changes into the change feed."`
	Aggregator aggregatorCmd `cmd:"" group:"run" help:"Run an aggregator: usage snapshots from the change feed."`
	Sharder    sharderCmd    `cmd:"" group:"run" help:"Run a sharder: divide buckets before DynamoDB throttles them."`
	Archiver   archiverCmd   `cmd:"" group:"run" help:"Run an archiver: audit events that leave the table, into a folder or S3."`
	DynamoDB   dynamodbCmd   `cmd:"" name:"dynamodb" group:"run" help:"Run the embedded DynamoDB-compatible store alone."`
	Health     healthCmd     `cmd:"" group:"run" help:"Ask whether a service of this machine is ready."`
}

type admissionCmd struct {
	natsFlags
	storeFlags
	adminFlags
	tuningFlags
	Archive          string `name:"archive" placeholder:"URL" help:"Read audit events that have left the table from there: s3://BUCKET/PREFIX?region=R, or file:///DIR, as the archiver has it; default: none."`
	TrustRequestInfo bool   `name:"trust-request-info" help:"All callers come through NATS service imports, so that the header which names them is the server's: audit events show it as verified."`
}

// tuningFlags are the sizes and times of a node.
type tuningFlags struct {
	Queue         int           `name:"queue" default:"16384" placeholder:"N" help:"Requests pending at most, then callers are told to come back; one bucket holds a quarter; default: 16384."`
	Remember      int           `name:"remember" default:"100000" placeholder:"N" help:"Bucket states in memory at most, below 1 KB each; default: 100000."`
	StoreTimeout  time.Duration `name:"store-timeout" default:"750ms" placeholder:"TIME" help:"How long one call to DynamoDB may take, at most 900ms; default: 750ms."`
	CreditWindow  time.Duration `name:"credit-window" default:"1h" placeholder:"TIME" help:"How long after an acquire its lease can give tokens back; default: 1h."`
	ClaimReplicas int           `name:"claim-replicas" default:"1" placeholder:"N" help:"JetStream replicas of the claims that make settlements happen once: 3 on a cluster; default: 1."`
}

func (f tuningFlags) tuning() (admission.Tuning, error) {
	if f.Queue < 1 || f.Remember < 1 || f.StoreTimeout <= 0 || f.CreditWindow <= 0 || f.ClaimReplicas < 1 {
		return admission.Tuning{}, usageError{errors.New("--queue, --remember, --store-timeout, --credit-window and --claim-replicas must be above 0")}
	}
	return admission.Tuning{
		Queue: f.Queue, Remember: f.Remember, StoreTimeout: f.StoreTimeout,
		CreditWindow: f.CreditWindow, ClaimReplicas: f.ClaimReplicas,
	}, nil
}

// Run serves until ctx ends.
func (c admissionCmd) Run(ctx context.Context, o output) error {
	if err := checkListen("--admin-listen", c.AdminListen); err != nil {
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
	tuning, err := c.tuning()
	if err != nil {
		return err
	}
	var kept *archive.Archive
	if c.Archive != "" {
		if kept, err = openArchive(ctx, c.Archive, false); err != nil {
			return err
		}
		defer func() { _ = kept.Close() }() // it was only read
	}
	traces, flush, err := o.traces(ctx, "tidegate-admission", log)
	if err != nil {
		return err
	}
	defer flush()
	node := node{archive: kept, nats: c.natsFlags, table: c.Table, store: cfg, log: log, tuning: tuning, trustInfo: c.TrustRequestInfo, traces: traces}
	return c.serve(ctx, log, "admission", func(ctx context.Context, registry *prometheus.Registry, ready func()) error {
		err := node.run(ctx, registry, func() {
			ready()
			log.InfoContext(ctx, "admission is ready", "nats", c.where(), "table", c.Table, "admin", c.AdminListen)
		})
		return c.storeFlags.explain(err)
	})
}

// node is one admission node and what it stands on.
type node struct {
	nats  natsFlags
	via   []nats.Option // how to reach NATS, where that is not over the network
	table string
	store aws.Config
	log   *slog.Logger

	archive   *archive.Archive // nil: none
	tuning    admission.Tuning
	trustInfo bool                 // callers cannot write the header that names them
	traces    trace.TracerProvider // nil: none
}

// run serves until ctx ends; it calls ready once requests are answered.
func (n node) run(ctx context.Context, metrics prometheus.Registerer, ready func()) error {
	nc, err := n.nats.dialService(ctx, "tidegate admission", n.log, n.via...)
	if err != nil {
		return err
	}
	service, err := admission.New(admission.Config{
		NATS: nc, DynamoDB: n.store, Table: n.table,
		Clock: systemClock(), Log: n.log, Metrics: metrics, Version: thisVersion().Version, Tuning: n.tuning,
		TrustRequestInfo: n.trustInfo, Archive: n.archive, Traces: n.traces,
	})
	if err != nil {
		nc.Close()
		return fmt.Errorf("make the admission node: %w", err)
	}
	return runService(ctx, service, ready)
}

// systemClock is this machine's clock. The wall reading carries no monotonic
// one, so that a clock that is set is seen to be.
func systemClock() storeclock.Source {
	start := time.Now()
	return func() storeclock.Reading {
		now := time.Now()
		return storeclock.Reading{Wall: now.Round(0), Mono: now.Sub(start)}
	}
}
