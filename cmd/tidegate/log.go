package main

import (
	"log/slog"

	"github.com/tidegate/tidegate/internal/process"
)

// logFlags configure a service's log, which goes to standard error.
type logFlags struct {
	LogFormat string `name:"log-format" placeholder:"FORMAT" help:"Log format: text, or json (an object per line); default: text; json with --json."`
	LogLevel  string `name:"log-level" default:"info" placeholder:"LEVEL" help:"Log level: debug, info, warn or error; default: info."`
}

// logger makes the log that the flags describe.
func (f logFlags) logger(o output) (*slog.Logger, error) {
	format := f.LogFormat
	switch {
	case format != "":
	case o.json:
		format = process.FormatJSON
	default:
		format = process.FormatText
	}
	log, err := process.NewLogger(o.stderr, f.LogLevel, format)
	if err != nil {
		return nil, usageError{err}
	}
	return log, nil
}
