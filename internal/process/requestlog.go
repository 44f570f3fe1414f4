package process

import (
	"context"
	"log/slog"

	"go.opentelemetry.io/otel/trace"
)

// maxListed is the number of ids that a line lists; a single write may serve thousands.
const maxListed = 32

type requestIDsKey struct{}

// WithRequestIDs returns a context with log lines about these requests.
func WithRequestIDs(ctx context.Context, ids ...string) context.Context {
	return context.WithValue(ctx, requestIDsKey{}, ids)
}

// LogRequestIDs returns a logger that adds to its lines the ids of the requests that their
// context is about, and that of its trace, where it is kept.
func LogRequestIDs(log *slog.Logger) *slog.Logger {
	return slog.New(requestIDHandler{log.Handler()})
}

// requestIDHandler adds the context's ids to each record.
type requestIDHandler struct{ slog.Handler }

// Handle implements slog.Handler.
func (h requestIDHandler) Handle(ctx context.Context, r slog.Record) error {
	ids, _ := ctx.Value(requestIDsKey{}).([]string)
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
func (h requestIDHandler) WithAttrs(attrs []slog.Attr) slog.Handler {
	return requestIDHandler{h.Handler.WithAttrs(attrs)}
}

// WithGroup implements slog.Handler.
func (h requestIDHandler) WithGroup(name string) slog.Handler {
	return requestIDHandler{h.Handler.WithGroup(name)}
}
