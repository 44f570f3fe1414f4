package readme_test

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"

	"github.com/nats-io/nats.go"
	"github.com/stretchr/testify/require"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"

	tidegate "github.com/tidegate/tidegate/pkg/client"
	"github.com/tidegate/tidegate/pkg/client/oteltidegate"
)

// serveOrder acquires for an order. The call joins the trace in ctx, and both sides
// log the order as the request ID.
func serveOrder(ctx context.Context, nc *nats.Conn, provider trace.TracerProvider, log *slog.Logger, order string) error {
	client, err := tidegate.New(nc, oteltidegate.Traces(provider))
	if err != nil {
		return err
	}
	_, err = client.Acquire(tidegate.WithRequestID(ctx, order), "api-key-123", "gpt-4", tidegate.Consume{"rpm": 1})
	var down *tidegate.UnavailableError
	if errors.As(err, &down) {
		log.ErrorContext(ctx, "tidegate is away", "request_id", down.RequestID, "error", err)
	}
	return err
}

// The snippet does what it says: the span is of the trace, and the id in the log.
func TestOrdersAreTracedAndLogged(t *testing.T) {
	s := share(t, "")
	output, code := s.shell(t, "tidegate limits set --resource gpt-4 rpm=2/week")
	require.Zero(t, code, output)
	exporter := tracetest.NewInMemoryExporter()
	provider := sdktrace.NewTracerProvider(sdktrace.WithSyncer(exporter))
	ctx, span := provider.Tracer("test").Start(t.Context(), "order")
	var logged strings.Builder
	log := slog.New(slog.NewTextHandler(&logged, nil))

	nc := s.connect(t)
	require.NoError(t, serveOrder(ctx, nc, provider, log, "order-17"))
	spans := exporter.GetSpans()
	require.Len(t, spans, 1)
	require.Equal(t, span.SpanContext().SpanID(), spans[0].Parent.SpanID())
	require.Empty(t, logged.String())

	nc.Close()
	require.Error(t, serveOrder(ctx, nc, provider, log, "order-18"))
	require.Contains(t, logged.String(), "request_id=order-18")
}
