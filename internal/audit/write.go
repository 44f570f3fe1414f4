package audit

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net/http"
	"slices"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/aws/retry"
	awshttp "github.com/aws/aws-sdk-go-v2/aws/transport/http"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/tidegate/tidegate/internal/table"
)

// Codes of the reasons for which a transaction is cancelled.
const (
	conditionFailed = "ConditionalCheckFailed"
	reasonNone      = "None"
)

// refusal says, write by write, why a transaction cannot be applied any more:
// at least one condition does not hold. The plan's writes come first, then the
// head's and the event's.
type refusal []types.CancellationReason

// outdated reports whether one of the plan's own conditions does not hold.
func (r refusal) outdated(writes int) bool {
	return slices.ContainsFunc(r[:writes], func(r types.CancellationReason) bool {
		return aws.ToString(r.Code) == conditionFailed
	})
}

// write brings one transaction to the store until it is known what became of
// it: applied (nil, nil), refused for good, or an error.
//
// Every attempt is the same request under the same token, so that the store
// applies it once at most, and answers a repeat of what it applied as if it were
// the first. A refusal by a condition is final: what it relies on, the number of
// the last event above all, never comes back.
func (l *Log) write(ctx context.Context, head table.AuditHead, e *table.AuditEvent, plan Plan) (refusal, error) {
	in := &dynamodb.TransactWriteItemsInput{
		ClientRequestToken: aws.String(rand.Text()),
		TransactItems:      append(slices.Clone(plan.Writes), table.AppendAuditEvent(l.table, head, e)...),
	}
	unknown := false // the answer of an attempt was lost
	var failure error
	for n := range writeAttempts {
		if failure = l.writeOnce(ctx, in); failure == nil {
			return nil, nil
		}
		var cancelled *types.TransactionCanceledException
		isCancelled := errors.As(failure, &cancelled) && len(cancelled.CancellationReasons) == len(in.TransactItems)
		if isCancelled {
			refused := refusal(cancelled.CancellationReasons)
			if refused.outdated(len(refused)) {
				return refused, nil
			}
			if !passing(refused) {
				break
			}
		}
		if !isCancelled {
			if final(failure) {
				break
			}
			unknown = unknown || !throttled(failure)
		}
		if err := table.Pause(ctx, n); err != nil {
			failure = errors.Join(failure, err)
			break
		}
	}
	if unknown {
		return nil, fmt.Errorf("%w: %w", ErrOutcomeUnknown, failure)
	}
	return nil, fmt.Errorf("write a change and its audit event: %w", failure)
}

func (l *Log) writeOnce(ctx context.Context, in *dynamodb.TransactWriteItemsInput) error {
	ctx, cancel := context.WithTimeout(ctx, writeTimeout)
	defer cancel()
	_, err := l.client.TransactWriteItems(ctx, in, once)
	return err
}

// once makes the SDK try a single time: write repeats by itself, and has to see
// every attempt's outcome.
func once(o *dynamodb.Options) { o.Retryer = aws.NopRetryer{} }

// passing reports whether a transaction was cancelled for what passes: other
// transactions in the way, and throttles.
func passing(r refusal) bool {
	return !slices.ContainsFunc(r, func(r types.CancellationReason) bool {
		switch aws.ToString(r.Code) {
		case "", reasonNone, "TransactionConflict", "ThrottlingError", "ProvisionedThroughputExceeded":
			return false
		}
		return true
	})
}

// throttled reports an answer that did not apply anything and may be another
// soon; also that an earlier attempt of the same token is still under way.
func throttled(err error) bool {
	return retry.ThrottleErrorCode{Codes: retry.DefaultThrottleErrorCodes}.IsErrorThrottle(err) == aws.TrueTernary
}

// final reports a refusal that repeating cannot change and that did not apply
// anything: an answer with a 4xx status that is no throttle.
func final(err error) bool {
	var answer *awshttp.ResponseError
	if !errors.As(err, &answer) || answer.HTTPStatusCode() < http.StatusBadRequest ||
		answer.HTTPStatusCode() >= http.StatusInternalServerError {
		return false // status 0: no answer at all
	}
	return !throttled(err)
}
