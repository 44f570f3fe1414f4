package storecalls

import (
	"errors"
	"slices"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/aws/smithy-go"
)

// Result is what came of a call.
type Result string

// The results there are.
const (
	OK        Result = "ok"
	Refused   Result = "refused"   // a condition failed, or another transaction was in the way
	Throttled Result = "throttled" // not carried out; it may be tried again
	Error     Result = "error"     // everything else, no answer among it
)

// Results lists all of them.
func Results() []Result { return []Result{OK, Refused, Throttled, Error} }

// ResultOf tells what came of a call from its error.
func ResultOf(err error) Result {
	if err == nil {
		return OK
	}
	var canceled *types.TransactionCanceledException
	if errors.As(err, &canceled) {
		return resultOfTransaction(canceled)
	}
	var coded smithy.APIError
	if !errors.As(err, &coded) {
		return Error
	}
	switch coded.ErrorCode() {
	case "ConditionalCheckFailedException", "TransactionConflictException":
		return Refused
	case "ProvisionedThroughputExceededException", "ThrottlingException", "RequestLimitExceeded", "LimitExceededException":
		return Throttled
	}
	return Error
}

// resultOfTransaction goes by the reasons of its parts: it is throttled if any of
// them is.
func resultOfTransaction(e *types.TransactionCanceledException) Result {
	has := func(codes ...string) bool {
		return slices.ContainsFunc(e.CancellationReasons, func(r types.CancellationReason) bool {
			return slices.Contains(codes, aws.ToString(r.Code))
		})
	}
	switch {
	case has("ThrottlingError", "ProvisionedThroughputExceeded"):
		return Throttled
	case has("ConditionalCheckFailed", "TransactionConflict"):
		return Refused
	}
	return Error
}
