package shards

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/aws/retry"
	awshttp "github.com/aws/aws-sdk-go-v2/aws/transport/http"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/tidegate/tidegate/internal/table"
)

const (
	// writeAttempts is how often a write is sent until its outcome is known.
	writeAttempts = 8
	// writeTimeout is how long one of them may take.
	writeTimeout = 2 * time.Second
)

var (
	// ErrUnknown says that a write may have been applied, or not, or may still be.
	ErrUnknown = errors.New("the outcome of the write is unknown")
	// ErrContended says that nothing was applied, because other writes were in the
	// way each time, or the store was asked for too much.
	ErrContended = errors.New("other writes were in the way")
)

// Transact applies writes together or not at all. It reports false where a
// condition does not hold. Every attempt carries the same token, so that the
// store applies the writes once at most and answers a repeat of what it applied as
// if it were the first; conflicts with other writes and throttles are waited
// out for a while, and are ErrContended then. An error that is not ErrUnknown says
// that nothing was applied.
func (s *Store) Transact(ctx context.Context, writes []types.TransactWriteItem) (applied bool, err error) {
	in := table.Transaction(rand.Text(), writes)
	return attempt(ctx, func(ctx context.Context) error {
		_, err := s.client.TransactWriteItems(ctx, in)
		return err
	})
}

// want changes how many shards are wanted. A repeat of the write after one of
// unknown outcome is refused where that one was applied.
func (s *Store) want(ctx context.Context, zero *table.Bucket, change table.WantChange) (applied bool, err error) {
	form := table.Want{Key: zero.Key, Change: change, Level: zero.Level, WriteUnits: 1, Nonce: s.nonce()}
	in := form.Input(s.table)
	return attempt(ctx, func(ctx context.Context) error {
		_, err := s.client.UpdateItem(ctx, in)
		return err
	})
}

func attempt(ctx context.Context, write func(context.Context) error) (applied bool, err error) {
	unknown := false // the answer of an attempt was lost
	for n := range writeAttempts {
		if err = within(ctx, write); err == nil {
			return true, nil
		}
		if refused(err) {
			return false, nil
		}
		if rejected(err) {
			break
		}
		unknown = unknown || !passing(err)
		if errPause := table.Pause(ctx, n); errPause != nil {
			err = errors.Join(err, errPause)
			break
		}
	}
	switch {
	case unknown:
		err = fmt.Errorf("%w: %w", ErrUnknown, err)
	case passing(err):
		err = fmt.Errorf("%w: %w", ErrContended, err)
	}
	return false, err
}

// within is one attempt, which takes no longer than it may.
func within(ctx context.Context, write func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, writeTimeout)
	defer cancel()
	return write(ctx)
}

// refused reports that a condition does not hold.
func refused(err error) bool {
	var one *types.ConditionalCheckFailedException
	return errors.As(err, &one) || slices.ContainsFunc(reasons(err), func(r types.CancellationReason) bool {
		return aws.ToString(r.Code) == "ConditionalCheckFailed"
	})
}

// reasons say for each write why a transaction was not applied.
func reasons(err error) []types.CancellationReason {
	var cancelled *types.TransactionCanceledException
	if !errors.As(err, &cancelled) {
		return nil
	}
	return cancelled.CancellationReasons
}

// passing reports that nothing was applied, for a reason that passes: other
// writes in the way, throttles, an earlier attempt that is still under way.
func passing(err error) bool {
	if of := reasons(err); of != nil {
		return !slices.ContainsFunc(of, func(r types.CancellationReason) bool {
			switch aws.ToString(r.Code) {
			case "", "None", "TransactionConflict", "ThrottlingError", "ProvisionedThroughputExceeded":
				return false
			}
			return true
		})
	}
	var conflict *types.TransactionConflictException
	return errors.As(err, &conflict) ||
		retry.ThrottleErrorCode{Codes: retry.DefaultThrottleErrorCodes}.IsErrorThrottle(err) == aws.TrueTernary
}

// rejected reports an answer with a 4xx status that a repeat would get again.
func rejected(err error) bool {
	var answer *awshttp.ResponseError
	return errors.As(err, &answer) && answer.HTTPStatusCode() >= 400 && answer.HTTPStatusCode() < 500 && !passing(err)
}
