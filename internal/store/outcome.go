package store

import (
	"errors"
	"net"
	"net/http"
	"syscall"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/aws/retry"
	awshttp "github.com/aws/aws-sdk-go-v2/aws/transport/http"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/aws/smithy-go"

	"github.com/tidegate/tidegate/internal/table"
)

// Outcome tells whether DynamoDB applied a write.
type Outcome uint8

// The outcomes of an attempt at a write.
const (
	Applied   Outcome = iota // the write took effect
	Refused                  // a condition does not hold; nothing was written
	Conflict                 // another transaction holds an item; nothing was written; repeat at once
	Throttled                // over the capacity; nothing was written; repeat after a pause
	Rejected                 // the request is invalid or not permitted; nothing was written; a repeat fails the same way
	NotSent                  // no connection was made; nothing was written
	Unknown                  // no usable reply, or a 5xx: the write took effect, or did not, or still may
)

// String returns the outcome in lower case, for logs and test names.
func (o Outcome) String() string {
	return [...]string{"applied", "refused", "conflict", "throttled", "rejected", "not sent", "unknown"}[o]
}

// NotApplied reports whether the attempt certainly wrote nothing.
func (o Outcome) NotApplied() bool { return o != Applied && o != Unknown }

// OutcomeOf reads the outcome of a write from its error; nil is Applied. All
// packages that write to DynamoDB use it, so that they agree on every error.
//
// The error must be that of a single attempt. A client that retries returns only
// the error of the last attempt, which tells nothing about the attempts before.
//
// A transaction that was cancelled for several reasons is Refused if any condition
// does not hold, since a repeat cannot change that. Otherwise the reason that
// delays a repeat longest decides: an invalid write, then a throttle, then a
// conflict.
func OutcomeOf(err error) Outcome {
	if err == nil {
		return Applied
	}
	if cancelled := (*types.TransactionCanceledException)(nil); errors.As(err, &cancelled) {
		return outcomeOfReasons(cancelled.CancellationReasons)
	}
	if coded := smithy.APIError(nil); errors.As(err, &coded) {
		switch coded.ErrorCode() {
		case "ConditionalCheckFailedException":
			return Refused
		case "TransactionConflictException",
			"TransactionInProgressException": // an earlier attempt with the same token is still running
			return Conflict
		}
	}
	if (retry.ThrottleErrorCode{Codes: retry.DefaultThrottleErrorCodes}).IsErrorThrottle(err) == aws.TrueTernary {
		return Throttled
	}
	if reply := (*awshttp.ResponseError)(nil); errors.As(err, &reply) {
		if status := reply.HTTPStatusCode(); status >= http.StatusBadRequest && status < http.StatusInternalServerError {
			return Rejected
		}
	}
	if dial := (*net.OpError)(nil); errors.Is(err, syscall.ECONNREFUSED) || (errors.As(err, &dial) && dial.Op == "dial") {
		return NotSent
	}
	return Unknown
}

func outcomeOfReasons(reasons []types.CancellationReason) Outcome {
	outcome := Conflict // a cancelled transaction wrote nothing, whatever its reasons
	for _, reason := range reasons {
		switch aws.ToString(reason.Code) {
		case "ConditionalCheckFailed":
			return Refused
		case "", "None", "TransactionConflict":
		case "ThrottlingError", "ProvisionedThroughputExceeded":
			outcome = max(outcome, Throttled)
		default: // ValidationError, ItemCollectionSizeLimitExceeded
			outcome = Rejected
		}
	}
	return outcome
}

// RefusedItem reports whether a condition of a single write does not hold. It
// returns the item that DynamoDB found, if the write asked for it.
func RefusedItem(err error) (table.Item, bool) {
	var refused *types.ConditionalCheckFailedException
	if !errors.As(err, &refused) {
		return nil, false
	}
	return refused.Item, true
}

// RefusedWrites returns for each write of a cancelled transaction why it was
// cancelled; nil for other errors.
func RefusedWrites(err error) []types.CancellationReason {
	var cancelled *types.TransactionCanceledException
	if !errors.As(err, &cancelled) {
		return nil
	}
	return cancelled.CancellationReasons
}

// Result is an outcome as metrics and spans count it.
type Result string

// The results, which are label values of metrics.
const (
	ResultOK        Result = "ok"
	ResultRefused   Result = "refused"   // a condition does not hold, or another transaction is in the way
	ResultThrottled Result = "throttled" // not carried out
	ResultError     Result = "error"     // all other errors, a missing reply included
)

// Results returns all results.
func Results() []Result { return []Result{ResultOK, ResultRefused, ResultThrottled, ResultError} }

// ResultOf returns the result of a call, a read or a write.
func ResultOf(err error) Result {
	switch OutcomeOf(err) {
	case Applied:
		return ResultOK
	case Refused, Conflict:
		return ResultRefused
	case Throttled:
		return ResultThrottled
	case Rejected, NotSent, Unknown:
	}
	return ResultError
}
