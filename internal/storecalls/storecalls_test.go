package storecalls_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/aws/retry"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	streams "github.com/aws/aws-sdk-go-v2/service/dynamodbstreams/types"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/require"

	"github.com/tidegate/tidegate/engine"
	"github.com/tidegate/tidegate/engine/fault"
	"github.com/tidegate/tidegate/internal/storecalls"
	"github.com/tidegate/tidegate/internal/table"
	"github.com/tidegate/tidegate/internal/table/tabletest"
	"github.com/tidegate/tidegate/pkg/keys"
)

func TestResultOf(t *testing.T) {
	cancelled := func(codes ...string) error {
		e := &types.TransactionCanceledException{}
		for _, code := range codes {
			e.CancellationReasons = append(e.CancellationReasons, types.CancellationReason{Code: aws.String(code)})
		}
		return e
	}
	for name, c := range map[string]struct {
		err  error
		want storecalls.Result
	}{
		"none":                  {nil, storecalls.OK},
		"condition":             {&types.ConditionalCheckFailedException{}, storecalls.Refused},
		"wrapped":               {fmt.Errorf("spend: %w", &types.ConditionalCheckFailedException{}), storecalls.Refused},
		"conflict":              {&types.TransactionConflictException{}, storecalls.Refused},
		"provisioned":           {&types.ProvisionedThroughputExceededException{}, storecalls.Throttled},
		"on demand":             {&types.ThrottlingException{}, storecalls.Throttled},
		"account":               {&types.RequestLimitExceeded{}, storecalls.Throttled},
		"too many readers":      {&streams.LimitExceededException{}, storecalls.Throttled},
		"transaction refused":   {cancelled("None", "ConditionalCheckFailed"), storecalls.Refused},
		"transaction throttled": {cancelled("ConditionalCheckFailed", "ThrottlingError"), storecalls.Throttled},
		"transaction invalid":   {cancelled("ValidationError", "None"), storecalls.Error},
		"no table":              {&types.ResourceNotFoundException{}, storecalls.Error},
		"no answer":             {context.DeadlineExceeded, storecalls.Error},
	} {
		require.Equal(t, c.want, storecalls.ResultOf(c.err), name)
		require.Contains(t, storecalls.Results(), c.want)
	}
}

// Each attempt counts, those that the SDK makes by itself too, with its time.
func TestEachAttemptCounts(t *testing.T) {
	b := tabletest.New(t)
	registry, now := prometheus.NewRegistry(), time.Duration(0)
	cfg, err := storecalls.Watch(engine.Config(b.Faults, "us-east-1"), storecalls.Options{
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
# HELP tidegate_store_calls_total Calls to DynamoDB, each attempt for itself, by operation and result: ok, refused, throttled or error.
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
	o := storecalls.Options{Service: "one", Metrics: registry, Mono: storecalls.Since(time.Now)}
	_, err := storecalls.Watch(aws.Config{}, o)
	require.NoError(t, err)
	_, err = storecalls.Watch(aws.Config{}, o)
	require.Error(t, err)
	o.Service = "two"
	_, err = storecalls.Watch(aws.Config{}, o)
	require.NoError(t, err)
}
