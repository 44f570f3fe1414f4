package main

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/tidegate/tidegate/internal/loadgen"
)

type replayCmd struct {
	loadFlags
	Entities  int     `name:"entities" default:"20" placeholder:"N" help:"Number of entities that send the requests in turn; default 20."`
	Speed     speed   `name:"speed" default:"max" placeholder:"10x" help:"Speed relative to the trace: 1x, 10x; or max, the default."`
	Limit     int     `name:"limit" placeholder:"N" help:"Replay only the first N requests."`
	Estimate  int64   `name:"estimate" default:"250" placeholder:"TOKENS" help:"Completion tokens that a request reserves; default 250."`
	Generate  float64 `name:"generate" default:"50" placeholder:"N" help:"Completion tokens generated per second, in the trace's time; default 50."`
	InFlight  int     `name:"in-flight" default:"1024" placeholder:"N" help:"Maximum number of requests in flight, generation included; default 1024."`
	TraceFile string  `arg:"" name:"trace" help:"An LLM trace, such as AzureLLMInferenceTrace_conv.csv of github.com/Azure/AzurePublicDataset, gzipped or not."`
}

func (replayCmd) Help() string {
	return `Each request acquires rpm=1 and tpm=(prompt tokens + estimate), and adjusts to the actual tokens when its completion ends. ` +
		`Exit code 1: a limit was exceeded, recomputed from the replies. An interrupt ends the run and prints what there is.`
}

// Run plays the trace and prints the report.
func (c replayCmd) Run(ctx context.Context, o output) error {
	if c.Limit < 0 || c.Entities < 1 {
		return usageError{errors.New("--limit cannot be negative, and --entities must be above 0")}
	}
	rows, err := loadgen.ReadTraceFile(c.TraceFile, c.Limit)
	if err != nil {
		return usageError{err}
	}
	target, done, err := c.open(ctx, "replay-", c.Entities)
	if err != nil {
		return err
	}
	defer done()
	replay := loadgen.Replay{
		Target: target, Trace: rows, Estimate: c.Estimate, Speed: float64(c.Speed), TokensPerSecond: c.Generate, InFlight: c.InFlight,
	}
	stop := o.watch(ctx, watched{what: "replaying", unit: "requests", total: int64(len(rows)), done: target.Finished.Load})
	report, err := replay.Run(ctx)
	stop()
	return c.conclude(o, report, err)
}

// speed is how many times faster than its trace a replay is, 0 for as fast as
// it can be.
type speed float64

// UnmarshalText reads 1x, 0.5x, 10x or max.
func (s *speed) UnmarshalText(text []byte) error {
	if string(text) == "max" {
		*s = 0
		return nil
	}
	factor, ok := strings.CutSuffix(string(text), "x")
	value, err := strconv.ParseFloat(factor, 64)
	if !ok || err != nil || !(value > 0 && value <= 1e6) {
		return fmt.Errorf("%q is not a speed: write 1x, 10x or max", text)
	}
	*s = speed(value)
	return nil
}
