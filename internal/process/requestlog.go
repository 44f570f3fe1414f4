package requestlog

import (
	"context"
	"log/slog"

	"go.opentelemetry.io/otel/trace"
)

// maxListed is how many ids one line lists; one write may serve thousands.
const maxListed = 32

type contextKey struct{}

// With returns a context whose log lines are about these requests.
func With(ctx context.Context, ids ...string) context.Context {
	return context.WithValue(ctx, contextKey{}, ids)
}

// Wrap returns a logger whose lines carry the ids of the requests that their
// context is about, and that of its trace, where it is kept.
func Wrap(log *slog.Logger) *slog.Logger {
	return slog.New(handler{log.Handler()})
}

// handler adds what is in the context to each record.
type handler struct{ slog.Handler }

// Handle implements slog.Handler.
func (h handler) Handle(ctx context.Context, r slog.Record) error {
	ids, _ := ctx.Value(contextKey{}).([]string)
	switch {
	case len(ids) == 0:
	case len(ids) == 1:
		r.AddAttrs(slog.String("request_id", ids[0]))
	case len(ids) <= maxListed:
		r.AddAttrs(slog.Any("request_ids", ids))
	default:
		r.AddAttrs(slog.Any("request_ids", ids[:maxListed]), slog.Int("requests", len(ids)))
	}
	if span := trace.SpanContextFromContext(ctx); span.IsSampled() {
		r.AddAttrs(slog.String("trace_id", span.TraceID().String()))
	}
	return h.Handler.Handle(ctx, r)
}

// WithAttrs implements slog.Handler.
func (h handler) WithAttrs(attrs []slog.Attr) slog.Handler {
	return handler{h.Handler.WithAttrs(attrs)}
}

// WithGroup implements slog.Handler.
func (h handler) WithGroup(name string) slog.Handler {
	return handler{h.Handler.WithGroup(name)}
}
