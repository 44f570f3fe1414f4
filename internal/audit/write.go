package audit

import (
	"context"
	"crypto/rand"
	"fmt"
	"slices"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/tidegate/tidegate/internal/store"
	"github.com/tidegate/tidegate/internal/table"
)

// conditionFailed is the code of a write whose condition fails.
const conditionFailed = "ConditionalCheckFailed"

// refusal says, write by write, why a transaction cannot be applied any more:
// a condition failed. The plan's writes come first, then the
// head's and the event's.
type refusal []types.CancellationReason

// outdated reports whether a condition of the plan itself failed.
func (r refusal) outdated(writes int) bool {
	return slices.ContainsFunc(r[:writes], func(r types.CancellationReason) bool {
		return aws.ToString(r.Code) == conditionFailed
	})
}

// write retries a transaction until its outcome is known: applied (nil, nil), refused
// for good, or an error.
//
// Every attempt is the same request under the same token, so that the store
// applies it at most once, and answers a repeat of an applied request like the first.
// A refusal by a condition is final: the state it relies on, above all the number of
// the last event, never comes back.
func (l *Log) write(ctx context.Context, head table.AuditHead, e *table.AuditEvent, plan Plan) (refusal, error) {
	in := &dynamodb.TransactWriteItemsInput{
		ClientRequestToken: aws.String(rand.Text()),
		TransactItems:      append(slices.Clone(plan.Writes), table.AppendAuditEvent(l.table, head, e)...),
	}
	outcome, err := store.Send(ctx, store.Attempts{Max: writeAttempts, Timeout: writeTimeout}, func(ctx context.Context) error {
		_, err := l.client.TransactWriteItems(ctx, in, once)
		return err
	})
	switch outcome {
	case store.Applied:
		return nil, nil
	case store.Refused:
		return refusal(store.RefusedWrites(err)), nil
	case store.Unknown:
		return nil, fmt.Errorf("%w: %w", ErrOutcomeUnknown, err)
	case store.Conflict, store.Throttled, store.Rejected, store.NotSent:
	}
	return nil, fmt.Errorf("write a change and its audit event: %w", err)
}

// once makes the SDK try a single time: write repeats by itself, and has to see
// every attempt's outcome.
func once(o *dynamodb.Options) { o.Retryer = aws.NopRetryer{} }
