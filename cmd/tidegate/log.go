package main

import (
	"log/slog"

	"github.com/tidegate/tidegate/internal/process"
)

// logFlags say what a service writes to its log, which goes to standard error:
// beside the output, not in it.
type logFlags struct {
	LogFormat string `name:"log-format" placeholder:"FORMAT" help:"How log lines are written: text for people, or json, one object a line; default: text, with --json json."`
	LogLevel  string `name:"log-level" default:"info" placeholder:"LEVEL" help:"Least level that is logged: debug, info, warn or error; default: info."`
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
