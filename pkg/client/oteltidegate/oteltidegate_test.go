package oteltidegate_test

import (
	"errors"
	"testing"

	"github.com/nats-io/nats.go"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/propagation"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"

	"github.com/tidegate/tidegate/internal/embednats/natstest"
	"github.com/tidegate/tidegate/pkg/api"
	tidegate "github.com/tidegate/tidegate/pkg/client"
	"github.com/tidegate/tidegate/pkg/client/oteltidegate"
)

// Names keep their case when they are written, and are found in any.
func TestCarrierKeepsCase(t *testing.T) {
	span := trace.NewSpanContext(trace.SpanContextConfig{TraceID: trace.TraceID{1}, SpanID: trace.SpanID{2}, TraceFlags: trace.FlagsSampled, Remote: true})
	ctx := trace.ContextWithSpanContext(t.Context(), span)
	headers := nats.Header{"Traceparent": {"of the message that is passed on"}, "Other": {"stays"}}
	propagation.TraceContext{}.Inject(ctx, oteltidegate.Carrier(headers))
	require.Contains(t, headers, "traceparent")
	require.NotContains(t, headers, "Traceparent")
	require.Equal(t, "stays", headers.Get("Other"))
	require.ElementsMatch(t, []string{"traceparent", "Other"}, oteltidegate.Carrier(headers).Keys())

	value := headers.Get("traceparent")
	for _, name := range []string{"traceparent", "Traceparent", "TRACEPARENT"} {
		got := propagation.TraceContext{}.Extract(t.Context(), oteltidegate.Carrier{name: {value}})
		require.Equal(t, span, trace.SpanContextFromContext(got), name)
	}
	both := oteltidegate.Carrier{"Traceparent": {"another"}, "traceparent": {value}, "empty": nil}
	require.Equal(t, value, both.Get("traceparent"), "the exact name is preferred")
	require.Empty(t, both.Get("empty"))
	require.Empty(t, both.Get("nobody"))
	require.Empty(t, oteltidegate.Carrier(nil).Get("traceparent"))
}

// Each request is a span, with the outcome that its caller sees, and carries it.
func TestRequestsAreSpans(t *testing.T) {
	nc := natstest.Start(t).Connect(t)
	replies := []*nats.Msg{
		{Data: []byte(`{"allowed":true,"lease":"L","limits":[]}`)},
		{Data: []byte(`{"allowed":false,"retry_after_ms":1,"limits":[]}`)},
		{Data: []byte(`{"code":"unknown_limit","message":"no"}`), Header: nats.Header{api.HeaderErrorCode: {"400"}}},
	}
	asked := make(chan *nats.Msg, len(replies))
	_, err := nc.Subscribe("tidegate.v1.default.acquire", func(m *nats.Msg) {
		asked <- m
		if err := m.RespondMsg(replies[len(asked)-1]); err != nil {
			t.Error(err)
		}
	})
	require.NoError(t, err)
	require.NoError(t, nc.Flush())

	exporter := tracetest.NewInMemoryExporter()
	provider := sdktrace.NewTracerProvider(sdktrace.WithSyncer(exporter))
	client, err := tidegate.New(nc, oteltidegate.Traces(provider))
	require.NoError(t, err)
	for i := range replies {
		_, err := client.Acquire(t.Context(), "e", "r", tidegate.Consume{"rpm": 1})
		var refused *tidegate.Error
		require.Equal(t, i == 2, errors.As(err, &refused))
	}
	spans := exporter.GetSpans()
	require.Len(t, spans, len(replies))
	for i, span := range spans {
		require.Equal(t, "tidegate acquire", span.Name)
		require.Equal(t, trace.SpanKindClient, span.SpanKind)
		require.Equal(t, i == 2, span.Status.Code == codes.Error, "a denial is no error")
		m := <-asked
		sent := trace.SpanContextFromContext(propagation.TraceContext{}.Extract(t.Context(), oteltidegate.Carrier(m.Header)))
		require.Equal(t, span.SpanContext.SpanID(), sent.SpanID())
		require.NotEmpty(t, m.Header.Get(api.HeaderRequestID))
	}
}
