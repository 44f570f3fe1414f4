package embednats

import (
	"context"
	"fmt"
	"log/slog"
)

// serverLog forwards the server's log lines. It logs notices, about a page at each
// start, at debug level. It also catches the fatal that keeps the server from
// starting.
type serverLog struct {
	log   *slog.Logger
	fatal chan error // holds the first
}

func newServerLog(log *slog.Logger) *serverLog {
	return &serverLog{log: log, fatal: make(chan error, 1)}
}

// say logs a line. The server does not pass a context.
func (l *serverLog) say(level slog.Level, format string, args []any) {
	ctx := context.Background()
	if l.log.Enabled(ctx, level) {
		l.log.Log(ctx, level, "the NATS server says", "line", fmt.Sprintf(format, args...))
	}
}

func (l *serverLog) Noticef(format string, args ...any) { l.say(slog.LevelDebug, format, args) }
func (l *serverLog) Debugf(format string, args ...any)  { l.say(slog.LevelDebug, format, args) }
func (l *serverLog) Tracef(format string, args ...any)  { l.say(slog.LevelDebug, format, args) }
func (l *serverLog) Warnf(format string, args ...any)   { l.say(slog.LevelWarn, format, args) }
func (l *serverLog) Errorf(format string, args ...any)  { l.say(slog.LevelError, format, args) }

// Fatalf keeps the cause with its type, so that Start can inspect it.
func (l *serverLog) Fatalf(format string, args ...any) {
	fatal := &fatalError{line: fmt.Sprintf(format, args...)}
	for _, arg := range args {
		if err, ok := arg.(error); ok {
			fatal.cause = err
		}
	}
	select {
	case l.fatal <- fatal:
	default: // the first says it all
	}
}

// fatalError is a fatal of the server.
type fatalError struct {
	line  string
	cause error
}

func (e *fatalError) Error() string { return e.line }
func (e *fatalError) Unwrap() error { return e.cause }
