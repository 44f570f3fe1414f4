package main

import (
	"context"
	"errors"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/tidegate/tidegate/internal/control"
	"github.com/tidegate/tidegate/internal/store"
	"github.com/tidegate/tidegate/services/admission"
)

type admissionCmd struct {
	nodeFlags
	tuningFlags
	Archive          string `name:"archive" placeholder:"URL" help:"Archive from which to read audit events that have left the table, as configured for the archiver: s3://BUCKET/PREFIX?region=R, or file:///DIR; default: no archive."`
	TrustRequestInfo bool   `name:"trust-request-info" help:"Trust the header that names the caller, because all callers come through NATS service imports, where the server writes it. Audit events then show the caller as verified."`
}

// tuningFlags are the sizes and times of a node.
type tuningFlags struct {
	Queue          int           `name:"queue" default:"16384" placeholder:"N" help:"Maximum number of pending acquires and settlements; more are refused as overloaded. A single bucket may hold a quarter; default: 16384."`
	Remember       stateMemory   `name:"remember" default:"160MB" placeholder:"SIZE" help:"Memory for bucket states, such as 64MB or 1GiB; the least recently used are dropped. A state of two limits takes about 1.6 KB, a state of 16 limits with long names about 6 KB. A number without a unit counts states of two limits; default: 160MB."`
	ControlCalls   int           `name:"control-calls" default:"16" placeholder:"N" help:"Requests for status and administration that run at a time, at most half of them of the same namespace. 64 times as many may wait for their turn; more are refused as overloaded; default: 16."`
	ControlTimeout time.Duration `name:"control-timeout" default:"10s" placeholder:"TIME" help:"Time that such a request may take, whatever its caller allows; default: 10s."`
	StoreTimeout   time.Duration `name:"store-timeout" default:"750ms" placeholder:"TIME" help:"Timeout of a DynamoDB call, at most 900ms; default: 750ms."`
	CreditWindow   time.Duration `name:"credit-window" default:"1h" placeholder:"TIME" help:"Time after an acquire in which its lease can give tokens back; default: 1h."`
	LeaseReplicas  int           `name:"lease-replicas" default:"1" placeholder:"N" help:"JetStream replicas of the lease records, which make settlements idempotent: 3 on a cluster; default: 1."`
}

func (f tuningFlags) check() error {
	if f.Queue < 1 || f.Remember < 1 || f.StoreTimeout <= 0 || f.CreditWindow <= 0 || f.LeaseReplicas < 1 || f.ControlCalls < 1 || f.ControlTimeout <= 0 {
		return usageError{errors.New("--queue, --remember, --control-calls, --control-timeout, --store-timeout, --credit-window and --lease-replicas must be above 0")}
	}
	return nil
}

func (f tuningFlags) tuning() admission.Tuning {
	return admission.Tuning{
		Queue: f.Queue, Remember: int64(f.Remember), StoreTimeout: f.StoreTimeout,
		ControlCalls: f.ControlCalls, ControlTimeout: f.ControlTimeout,
		CreditWindow: f.CreditWindow, LeaseReplicas: f.LeaseReplicas,
	}
}

// Run serves until ctx ends.
func (c admissionCmd) Run(ctx context.Context, o output) error {
	if err := c.check(); err != nil {
		return err
	}
	n, err := c.node(ctx, o)
	if err != nil {
		return err
	}
	if c.Archive != "" {
		if n.archive, err = openArchive(ctx, c.Archive, false, n.log); err != nil {
			return err
		}
		defer func() { _ = n.archive.Close() }() // it was only read
	}
	var flush func()
	if n.traces, flush, err = o.traces(ctx, "tidegate-admission", n.log); err != nil {
		return err
	}
	defer flush()
	return n.serve(ctx, c.adminFlags, "admission", c.make, "admission is ready", "table", c.Table)
}

// make makes an admission node, which is ready once requests are answered.
func (c admissionCmd) make(n node, nc *nats.Conn) (service, error) {
	store, clock, err := store.Clocked(n.store, "admission", systemClock(), n.metrics)
	if err != nil {
		return nil, err
	}
	made, err := admission.New(admission.Config{
		NATS: nc, DynamoDB: store, Table: n.table, Clock: clock,
		Log: n.log, Metrics: n.metrics, Version: thisVersion().Version, Tuning: c.tuning(), Traces: n.traces,
		Control: control.Open(control.Options{
			DynamoDB: store, Table: n.table, Clock: clock, Publish: nc.Publish, Log: n.log,
			Archive: n.archive, TrustRequestInfo: c.TrustRequestInfo,
		}),
	})
	return explained{made, c.storeFlags}, err
}

// explained wraps an admission node and adds advice to the errors of its store.
type explained struct {
	*admission.Service
	store storeFlags
}

func (e explained) Run(ctx context.Context) error { return e.store.explain(e.Service.Run(ctx)) }

// systemClock returns this machine's clock. The wall reading carries no monotonic
// reading, so that a clock step is visible.
func systemClock() store.ClockSource {
	start := time.Now()
	return func() store.ClockReading {
		now := time.Now()
		return store.ClockReading{Wall: now.Round(0), Mono: now.Sub(start)}
	}
}
