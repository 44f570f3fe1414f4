package process

import (
	"context"
	"fmt"
	"log/slog"

	"github.com/aws/smithy-go/logging"
)

// Lines returns a handler for the log of a library that formats whole lines, such as
// http.Server.ErrorLog. Each record gets the given message and the line as its attribute,
// because lines contain text that callers choose, and a message must be a constant.
func Lines(log *slog.Logger, message string) slog.Handler {
	return lineHandler{log.Handler(), message}
}

type lineHandler struct {
	slog.Handler
	message string
}

// Handle implements slog.Handler.
func (h lineHandler) Handle(ctx context.Context, r slog.Record) error {
	line := slog.NewRecord(r.Time, r.Level, h.message, r.PC)
	line.AddAttrs(slog.String("line", r.Message))
	r.Attrs(func(a slog.Attr) bool {
		line.AddAttrs(a)
		return true
	})
	return h.Handler.Handle(ctx, line)
}

// WithAttrs implements slog.Handler.
func (h lineHandler) WithAttrs(attrs []slog.Attr) slog.Handler {
	return lineHandler{h.Handler.WithAttrs(attrs), h.message}
}

// WithGroup implements slog.Handler.
func (h lineHandler) WithGroup(name string) slog.Handler {
	return lineHandler{h.Handler.WithGroup(name), h.message}
}

// AWSLog returns a logger for aws.Config that writes the SDK's warnings to log. Without it,
// the SDK writes them to standard error in a format of its own.
func AWSLog(log *slog.Logger) logging.Logger {
	return logging.LoggerFunc(func(class logging.Classification, format string, args ...any) {
		level := slog.LevelDebug
		if class == logging.Warn {
			level = slog.LevelWarn
		}
		ctx := context.Background() // the SDK passes none
		if log.Enabled(ctx, level) {
			log.Log(ctx, level, "the AWS SDK says", "line", fmt.Sprintf(format, args...))
		}
	})
}
