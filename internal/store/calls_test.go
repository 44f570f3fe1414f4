package store_test

import (
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/aws/retry"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/require"

	"github.com/tidegate/tidegate/engine"
	"github.com/tidegate/tidegate/engine/fault"
	"github.com/tidegate/tidegate/internal/store"
	"github.com/tidegate/tidegate/internal/table"
	"github.com/tidegate/tidegate/internal/table/tabletest"
	"github.com/tidegate/tidegate/pkg/keys"
)

// Each attempt counts, those that the SDK makes by itself too, with its time.
func TestEachAttemptCounts(t *testing.T) {
	b := tabletest.New(t)
	registry, now := prometheus.NewRegistry(), time.Duration(0)
	cfg, err := store.Watch(engine.Config(b.Faults, "us-east-1"), store.WatchOptions{
		Service: "test", Metrics: registry, Mono: func() time.Duration { now += 20 * time.Millisecond; return now },
	})
	require.NoError(t, err)
	client := dynamodb.NewFromConfig(cfg, func(o *dynamodb.Options) {
		o.Retryer = retry.NewStandard(func(o *retry.StandardOptions) { o.Backoff = retry.NewExponentialJitterBackoff(0) })
	})
	b.Fail("DeleteItem", fault.ThroughputExceeded(), fault.ThroughputExceeded(), fault.Fault{})
	in := &dynamodb.DeleteItemInput{TableName: &b.Table, Key: table.ReadInput(b.Table, keys.SystemConfig{Namespace: "AAAAAAAAAAA"}.Key()).Key}
	_, err = client.DeleteItem(t.Context(), in)
	require.NoError(t, err)
	in.ConditionExpression = aws.String("attribute_exists(PK)")
	_, err = client.DeleteItem(t.Context(), in)
	require.Error(t, err)

	require.NoError(t, testutil.GatherAndCompare(registry, strings.NewReader(`
# HELP tidegate_store_calls_total Calls to DynamoDB, counting each attempt, by operation and result: ok, refused, throttled or error.
# TYPE tidegate_store_calls_total counter
tidegate_store_calls_total{operation="DeleteItem",result="ok",service="test"} 1
tidegate_store_calls_total{operation="DeleteItem",result="refused",service="test"} 1
tidegate_store_calls_total{operation="DeleteItem",result="throttled",service="test"} 2
`), "tidegate_store_calls_total"))
	families, err := registry.Gather()
	require.NoError(t, err)
	require.Equal(t, "tidegate_store_seconds", families[1].GetName())
	seconds := families[1].GetMetric()[0].GetHistogram()
	require.EqualValues(t, 4, seconds.GetSampleCount())
	require.InDelta(t, 0.08, seconds.GetSampleSum(), 1e-9)
}

// Two services share a registry; one service has its metrics there once.
func TestServicesShareARegistry(t *testing.T) {
	registry := prometheus.NewRegistry()
	o := store.WatchOptions{Service: "one", Metrics: registry, Mono: store.Monotonic(time.Now)}
	_, err := store.Watch(aws.Config{}, o)
	require.NoError(t, err)
	_, err = store.Watch(aws.Config{}, o)
	require.Error(t, err)
	o.Service = "two"
	_, err = store.Watch(aws.Config{}, o)
	require.NoError(t, err)
}
