package main

import (
	"errors"
	"log/slog"
	"time"

	"github.com/tidegate/tidegate/internal/process"
)

// logFlags configure a service's log, which goes to standard error.
type logFlags struct {
	LogFormat string `name:"log-format" placeholder:"FORMAT" help:"Log format: text, or json (an object per line); default: text; json with --json."`
	LogLevel  string `name:"log-level" default:"info" placeholder:"LEVEL" help:"Log level: debug, info, warn or error; default: info."`

	LogBurst    int           `name:"log-burst" default:"10" placeholder:"N" help:"Maximum number of log lines of the same cause per --log-interval; a line at its end says how many more there were. 0 writes all; default: 10."`
	LogInterval time.Duration `name:"log-interval" default:"10s" placeholder:"TIME" help:"Interval of --log-burst; default: 10s."`
}

// logger makes the log that the flags describe. The number of lines that it suppressed
// last is written when the command ends.
func (f logFlags) logger(o output) (*slog.Logger, error) {
	format := f.LogFormat
	switch {
	case format != "":
	case o.json:
		format = process.FormatJSON
	default:
		format = process.FormatText
	}
	if f.LogBurst < 0 || f.LogBurst > 0 && f.LogInterval <= 0 {
		return nil, usageError{errors.New("--log-burst must not be below 0, and --log-interval must be above 0")}
	}
	log, err := process.NewLogger(o.stderr, f.LogLevel, format)
	if err != nil {
		return nil, usageError{err}
	}
	sampler := process.NewSampler(log.Handler(), f.LogBurst, f.LogInterval)
	o.atEnd.add(sampler.Flush)
	return slog.New(sampler), nil
}
