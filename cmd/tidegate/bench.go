package main

import (
	"context"
	"errors"
	"time"

	"github.com/tidegate/tidegate/internal/loadgen"
	"github.com/tidegate/tidegate/pkg/api"
)

type benchCmd struct {
	loadFlags
	Entities int           `name:"entities" default:"1" placeholder:"N" help:"Number of entities that acquire in turn; default 1."`
	Callers  int           `name:"callers" default:"64" placeholder:"N" help:"Concurrent callers, each of which waits for its reply before the next acquire; with --rate, the maximum number of acquires in flight. Default 64."`
	Rate     float64       `name:"rate" placeholder:"N" help:"Open loop: acquires per second, sent without waiting for replies."`
	Duration time.Duration `name:"duration" default:"10s" help:"Duration; default 10s."`
	Consume  []string      `name:"consume" default:"rpm=1" placeholder:"LIMIT=TOKENS" help:"Amounts of each acquire; default rpm=1."`
}

func (benchCmd) Help() string {
	return `It really spends: use a separate resource. Exit code 1: a limit was exceeded, recomputed from the replies. ` +
		`An interrupt ends the run and prints what there is.`
}

// Run puts load on the system and prints the report.
func (c benchCmd) Run(ctx context.Context, o output) error {
	consume, err := api.ParseAmounts(c.Consume, 0)
	if err != nil {
		return usageError{err}
	}
	if c.Entities < 1 {
		return usageError{errors.New("--entities must be above 0")}
	}
	target, done, err := c.open(ctx, "bench-", c.Entities)
	if err != nil {
		return err
	}
	defer done()
	load := loadgen.Load{Target: target, Consume: consume, Callers: c.Callers, Rate: c.Rate, Duration: c.Duration}
	start := time.Now()
	stop := o.watch(ctx, watched{what: "loading", unit: "s", total: int64(c.Duration.Seconds()), done: func() int64 {
		return min(int64(time.Since(start).Seconds()), int64(c.Duration.Seconds()))
	}})
	report, err := load.Run(ctx)
	stop()
	return c.conclude(o, report, err)
}
