package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/schollz/progressbar/v3"
	"golang.org/x/term"

	"github.com/tidegate/tidegate/internal/loadgen"
	"github.com/tidegate/tidegate/pkg/api"
	tidegate "github.com/tidegate/tidegate/pkg/client"
)

// loadFlags set the load and how its progress is shown.
type loadFlags struct {
	clientFlags
	Resource    string        `name:"resource" default:"bench" placeholder:"NAME" help:"Resource to spend from; default bench."`
	SetLimits   []string      `name:"set-limits" placeholder:"LIMIT" help:"Limits to set on the resource before the run; they stay set: rpm=100/min,tpm=10000/min:20000. Without this flag they must be set already."`
	Connections int           `name:"connections" default:"4" placeholder:"N" help:"NATS connections; default 4."`
	Metrics     []string      `name:"metrics" default:"http://127.0.0.1:9464/metrics" placeholder:"URL" help:"Metrics endpoints of all admission nodes, for the cost; default http://127.0.0.1:9464/metrics."`
	ClockSkew   time.Duration `name:"clock-skew" help:"Maximum clock skew between nodes, which the check for exceeded limits allows for."`
}

// open connects, and sets limits if requested. The caller must call done to close the
// connection.
func (f loadFlags) open(ctx context.Context, prefix string, entities int) (target loadgen.Target, done func(), err error) {
	limits, err := parseLimits(f.SetLimits)
	if err == nil {
		err = errors.Join(api.CheckNamespace(f.Namespace), api.CheckResource(f.Resource))
	}
	if err == nil && (f.Connections < 1 || f.ClockSkew < 0) {
		err = errors.New("--connections must be above 0, and --clock-skew cannot be negative")
	}
	if err != nil {
		return loadgen.Target{}, nil, usageError{err}
	}
	target = loadgen.Target{
		Resource: f.Resource, Entities: loadgen.Entities(prefix, entities), Metrics: f.Metrics, ClockSkew: f.ClockSkew,
		Now: time.Now, Finished: new(atomic.Int64),
	}
	var connections []*nats.Conn
	done = func() {
		for _, nc := range connections {
			nc.Close()
		}
	}
	for range f.Connections {
		nc, err := f.dial("tidegate load", f.inbox())
		if err != nil {
			done()
			return loadgen.Target{}, nil, err
		}
		connections = append(connections, nc)
		client, err := tidegate.New(nc, tidegate.WithNamespace(f.Namespace))
		if err != nil {
			done()
			return loadgen.Target{}, nil, fmt.Errorf("make a client: %w", err)
		}
		target.Clients = append(target.Clients, client)
	}
	if len(limits) > 0 {
		if err := target.SetLimits(ctx, limits); err != nil {
			done()
			return loadgen.Target{}, nil, f.explain(err)
		}
	}
	return target, done, nil
}

// errExceeded ends a run that found the system at fault.
var errExceeded = errors.New("a limit was exceeded: the system admitted more than it may")

// conclude prints the report, and fails if a limit was exceeded.
func (f loadFlags) conclude(o output, report loadgen.Report, err error) error {
	var refused *api.Error
	switch {
	case errors.As(err, &refused) && refused.Code == api.CodeNoLimits:
		return advise(err, "Set some, or let this command do it with --set-limits rpm=600/min,tpm=1000000/min")
	case err != nil:
		return f.explain(err)
	}
	if err := o.write(report, func(p *page) { printReport(p, report) }); err != nil {
		return err
	}
	if report.Check.Exceeded() {
		return errExceeded
	}
	return nil
}

// watched describes the progress line of a run.
type watched struct {
	what, unit string
	total      int64
	done       func() int64
}

const (
	barEvery  = 100 * time.Millisecond
	lineEvery = 5 * time.Second
)

// watch shows progress beside the output: a bar on a terminal, else a line now
// and then. It ends with stop, which waits for it.
func (o output) watch(ctx context.Context, w watched) (stop func()) {
	show, every := o.progressLines(w), lineEvery
	if file, ok := o.stderr.(*os.File); ok && term.IsTerminal(int(file.Fd())) {
		show, every = progressBar(file, w), barEvery
	}
	ctx, cancel := context.WithCancel(ctx)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		tick := time.NewTicker(every)
		defer tick.Stop()
		for {
			select {
			case <-ctx.Done():
				show(true)
				return
			case <-tick.C:
				show(false)
			}
		}
	}()
	return func() { cancel(); <-ended }
}

func (o output) progressLines(w watched) func(last bool) {
	return func(last bool) {
		if !last {
			_, _ = fmt.Fprintf(o.stderr, "%s: %d of %d %s\n", w.what, w.done(), w.total, w.unit) // only progress
		}
	}
}

func progressBar(out io.Writer, w watched) func(last bool) {
	bar := progressbar.NewOptions64(w.total,
		progressbar.OptionSetWriter(out), progressbar.OptionSetDescription(w.what), progressbar.OptionSetItsString(w.unit),
		progressbar.OptionShowCount(), progressbar.OptionShowIts(), progressbar.OptionSetPredictTime(true), progressbar.OptionFullWidth())
	return func(last bool) {
		_ = bar.Set64(min(w.done(), w.total)) // only progress
		if last {
			_ = bar.Exit()
			_, _ = fmt.Fprintln(out)
		}
	}
}
