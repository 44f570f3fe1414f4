package store_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"syscall"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	awshttp "github.com/aws/aws-sdk-go-v2/aws/transport/http"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	streams "github.com/aws/aws-sdk-go-v2/service/dynamodbstreams/types"
	"github.com/aws/smithy-go"
	smithyhttp "github.com/aws/smithy-go/transport/http"
	"github.com/stretchr/testify/require"

	"github.com/tidegate/tidegate/engine/fault"
	"github.com/tidegate/tidegate/internal/store"
	"github.com/tidegate/tidegate/internal/table"
	"github.com/tidegate/tidegate/internal/table/tabletest"
	"github.com/tidegate/tidegate/pkg/keys"
)

// cancelled is a transaction that was cancelled for a reason per write.
func cancelled(codes ...string) error {
	e := &types.TransactionCanceledException{}
	for _, code := range codes {
		e.CancellationReasons = append(e.CancellationReasons, types.CancellationReason{Code: aws.String(code)})
	}
	return e
}

// replied is an error that came with an HTTP status.
func replied(status int, err error) error {
	return &awshttp.ResponseError{ResponseError: &smithyhttp.ResponseError{
		Response: &smithyhttp.Response{Response: &http.Response{StatusCode: status}}, Err: err,
	}}
}

func TestOutcomeOfEveryError(t *testing.T) {
	coded := func(code string) error { return &smithy.GenericAPIError{Code: code} }
	for name, c := range map[string]struct {
		err  error
		want store.Outcome
	}{
		"none":                         {nil, store.Applied},
		"condition":                    {&types.ConditionalCheckFailedException{}, store.Refused},
		"condition, wrapped":           {fmt.Errorf("spend: %w", replied(400, &types.ConditionalCheckFailedException{})), store.Refused},
		"transaction, condition":       {cancelled("None", "ConditionalCheckFailed"), store.Refused},
		"transaction, and a throttle":  {cancelled("ConditionalCheckFailed", "ThrottlingError"), store.Refused},
		"transaction, and a conflict":  {cancelled("TransactionConflict", "ConditionalCheckFailed"), store.Refused},
		"transaction, and invalid":     {cancelled("ValidationError", "ConditionalCheckFailed"), store.Refused},
		"conflict":                     {replied(400, &types.TransactionConflictException{}), store.Conflict},
		"transaction, conflict":        {cancelled("None", "TransactionConflict"), store.Conflict},
		"transaction without reasons":  {cancelled(), store.Conflict},
		"same token in progress":       {replied(400, &types.TransactionInProgressException{}), store.Conflict},
		"partition throttled":          {replied(400, &types.ProvisionedThroughputExceededException{}), store.Throttled},
		"throttled on demand":          {&types.ThrottlingException{}, store.Throttled},
		"account limit":                {&types.RequestLimitExceeded{}, store.Throttled},
		"too many stream readers":      {&streams.LimitExceededException{}, store.Throttled},
		"throttled, untyped":           {replied(400, coded("ThrottlingException")), store.Throttled},
		"transaction, throttled":       {cancelled("ThrottlingError", "TransactionConflict"), store.Throttled},
		"transaction, provisioned":     {cancelled("None", "ProvisionedThroughputExceeded"), store.Throttled},
		"transaction, invalid":         {cancelled("None", "ValidationError"), store.Rejected},
		"transaction, invalid first":   {cancelled("ValidationError", "ThrottlingError"), store.Rejected},
		"transaction, collection size": {cancelled("ItemCollectionSizeLimitExceeded"), store.Rejected},
		"invalid":                      {replied(400, coded("ValidationException")), store.Rejected},
		"denied":                       {replied(400, coded("AccessDeniedException")), store.Rejected},
		"no table":                     {replied(400, &types.ResourceNotFoundException{}), store.Rejected},
		"token of another transaction": {replied(400, &types.IdempotentParameterMismatchException{}), store.Rejected},
		"refused connection":           {fmt.Errorf("send: %w", syscall.ECONNREFUSED), store.NotSent},
		"no route":                     {&net.OpError{Op: "dial", Err: errors.New("no route to host")}, store.NotSent},
		"internal error":               {replied(500, &types.InternalServerError{}), store.Unknown},
		"unavailable":                  {replied(503, coded("ServiceUnavailable")), store.Unknown},
		"reply lost":                   {&net.OpError{Op: "read", Err: syscall.ECONNRESET}, store.Unknown},
		"reply cut off":                {io.ErrUnexpectedEOF, store.Unknown},
		"timeout":                      {context.DeadlineExceeded, store.Unknown},
		"canceled by the caller":       {&aws.RequestCanceledError{Err: context.Canceled}, store.Unknown},
		"anything else":                {errors.New("?"), store.Unknown},
	} {
		t.Run(name, func(t *testing.T) {
			require.Equal(t, c.want.String(), store.OutcomeOf(c.err).String())
			require.Contains(t, store.Results(), store.ResultOf(c.err))
		})
	}
}

// The outcomes of real requests, through the SDK and an embedded engine.
func TestOutcomeOfRequests(t *testing.T) {
	for name, c := range map[string]struct {
		fault   fault.Fault
		want    store.Outcome
		applied bool
	}{
		"applied":            {fault.Fault{}, store.Applied, true},
		"throttled":          {fault.Throttling(), store.Throttled, false},
		"throughput":         {fault.ThroughputExceeded(), store.Throttled, false},
		"conflict":           {fault.TransactionConflict(), store.Conflict, false},
		"unreachable":        {fault.Fault{Kind: fault.Unreachable}, store.NotSent, false},
		"failed":             {fault.InternalError(), store.Unknown, false},
		"failed but applied": {fault.InternalErrorAfter(), store.Unknown, true},
		"reply lost":         {fault.Fault{Kind: fault.ReplyLost}, store.Unknown, true},
	} {
		t.Run(name, func(t *testing.T) {
			b := tabletest.New(t)
			if name != "applied" {
				b.Fail("PutItem", c.fault)
			}
			key := keys.SystemConfig{Namespace: "AAAAAAAAAAA"}.Key()
			_, err := b.DB.PutItem(t.Context(), &dynamodb.PutItemInput{TableName: &b.Table, Item: table.KeyItem(key)}, once)
			require.Equal(t, c.want.String(), store.OutcomeOf(err).String(), "%v", err)
			out, err := b.Direct.GetItem(t.Context(), table.ReadInput(b.Table, key))
			require.NoError(t, err)
			require.Equal(t, c.applied, len(out.Item) > 0)
			require.False(t, c.want.NotApplied() && c.applied)
		})
	}
}

func once(o *dynamodb.Options) { o.Retryer = aws.NopRetryer{} }

func TestResultOf(t *testing.T) {
	for name, c := range map[string]struct {
		err  error
		want store.Result
	}{
		"none":                  {nil, store.ResultOK},
		"condition":             {&types.ConditionalCheckFailedException{}, store.ResultRefused},
		"wrapped":               {fmt.Errorf("spend: %w", &types.ConditionalCheckFailedException{}), store.ResultRefused},
		"conflict":              {&types.TransactionConflictException{}, store.ResultRefused},
		"provisioned":           {&types.ProvisionedThroughputExceededException{}, store.ResultThrottled},
		"on demand":             {&types.ThrottlingException{}, store.ResultThrottled},
		"account":               {&types.RequestLimitExceeded{}, store.ResultThrottled},
		"too many readers":      {&streams.LimitExceededException{}, store.ResultThrottled},
		"transaction refused":   {cancelled("None", "ConditionalCheckFailed"), store.ResultRefused},
		"transaction throttled": {cancelled("TransactionConflict", "ThrottlingError"), store.ResultThrottled},
		"a condition decides":   {cancelled("ConditionalCheckFailed", "ThrottlingError"), store.ResultRefused},
		"transaction invalid":   {cancelled("ValidationError", "None"), store.ResultError},
		"no table":              {&types.ResourceNotFoundException{}, store.ResultError},
		"no answer":             {context.DeadlineExceeded, store.ResultError},
	} {
		require.Equal(t, c.want, store.ResultOf(c.err), name)
		require.Contains(t, store.Results(), c.want)
	}
}

func TestRefusedItem(t *testing.T) {
	item := table.Item{"PK": &types.AttributeValueMemberS{Value: "x"}}
	found, refused := store.RefusedItem(fmt.Errorf("write: %w", &types.ConditionalCheckFailedException{Item: item}))
	require.True(t, refused)
	require.Equal(t, item, found)
	_, refused = store.RefusedItem(context.DeadlineExceeded)
	require.False(t, refused)

	require.Len(t, store.RefusedWrites(cancelled("None", "ConditionalCheckFailed")), 2)
	require.Nil(t, store.RefusedWrites(&types.ConditionalCheckFailedException{}))
}
