package store_test

import (
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/aws/retry"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/codes"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"github.com/tidegate/tidegate/engine"
	"github.com/tidegate/tidegate/engine/fault"
	"github.com/tidegate/tidegate/internal/store"
	"github.com/tidegate/tidegate/internal/table"
	"github.com/tidegate/tidegate/internal/table/tabletest"
	"github.com/tidegate/tidegate/pkg/keys"
)

// Each attempt within a span is one of its own, with what came of it; outside of
// spans nothing is traced.
func TestEachAttemptIsASpan(t *testing.T) {
	b := tabletest.New(t)
	cfg, err := store.Watch(engine.Config(b.Faults, "us-east-1"), store.WatchOptions{
		Service: "test", Metrics: prometheus.NewRegistry(), Mono: store.Monotonic(time.Now),
	})
	require.NoError(t, err)
	client := dynamodb.NewFromConfig(cfg, func(o *dynamodb.Options) {
		o.Retryer = retry.NewStandard(func(o *retry.StandardOptions) { o.Backoff = retry.NewExponentialJitterBackoff(0) })
	})
	exporter := tracetest.NewInMemoryExporter()
	tracer := sdktrace.NewTracerProvider(sdktrace.WithSyncer(exporter)).Tracer("test")
	in := &dynamodb.DeleteItemInput{TableName: &b.Table, Key: table.ReadInput(b.Table, keys.SystemConfig{Namespace: "AAAAAAAAAAA"}.Key()).Key}
	_, err = client.DeleteItem(t.Context(), in)
	require.NoError(t, err)
	require.Empty(t, exporter.GetSpans())

	ctx, parent := tracer.Start(t.Context(), "what it is for")
	b.Fail("DeleteItem", fault.ThroughputExceeded(), fault.Fault{})
	_, err = client.DeleteItem(ctx, in)
	require.NoError(t, err)
	in.ConditionExpression = aws.String("attribute_exists(PK)")
	_, err = client.DeleteItem(ctx, in)
	require.Error(t, err)
	spans := exporter.GetSpans()
	require.Len(t, spans, 3)
	for i, want := range []struct {
		result store.Result
		status codes.Code
	}{{store.ResultThrottled, codes.Error}, {store.ResultOK, codes.Unset}, {store.ResultRefused, codes.Unset}} {
		require.Equal(t, "DynamoDB.DeleteItem", spans[i].Name)
		require.Equal(t, parent.SpanContext().SpanID(), spans[i].Parent.SpanID())
		require.Equal(t, want.status, spans[i].Status.Code, want.result)
		found := false
		for _, a := range spans[i].Attributes {
			found = found || a.Key == "tidegate.result" && a.Value.AsString() == string(want.result)
		}
		require.True(t, found, want.result)
	}
}
