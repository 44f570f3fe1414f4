package shards

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/tidegate/tidegate/internal/store"
	"github.com/tidegate/tidegate/internal/table"
)

// writeAttempts bounds a write: sent until its outcome is known.
const (
	writeAttempts = 8
	writeTimeout  = 2 * time.Second // of one attempt
)

var (
	// ErrUnknown says that a write may have been applied, or not, or may still be.
	ErrUnknown = errors.New("the outcome of the write is unknown")
	// ErrContended says that nothing was applied: each attempt met another write of
	// the same items, or was throttled.
	ErrContended = errors.New("other writes were in the way")
)

// Transact applies all writes or none. It reports false if a condition does not
// hold. All attempts carry the same token, so DynamoDB applies the writes at most
// once and answers a repeat as it answered the first. Conflicts and throttles are
// repeated for a while; then the error is ErrContended. Any error except ErrUnknown
// means that nothing was applied.
func (s *Store) Transact(ctx context.Context, writes []types.TransactWriteItem) (applied bool, err error) {
	in := table.Transaction(rand.Text(), writes)
	return send(ctx, func(ctx context.Context) error {
		_, err := s.client.TransactWriteItems(ctx, in)
		return err
	})
}

// want changes the wanted number of shards. If an attempt of unknown outcome was
// applied, its repeat is refused.
func (s *Store) want(ctx context.Context, zero *table.Bucket, change table.WantChange) (applied bool, err error) {
	form := table.Want{Key: zero.Key, Change: change, Level: zero.Level, WriteUnits: 1, Nonce: s.nonce()}
	in := form.Input(s.table)
	return send(ctx, func(ctx context.Context) error {
		_, err := s.client.UpdateItem(ctx, in)
		return err
	})
}

// send repeats a write until its outcome is known.
func send(ctx context.Context, write func(context.Context) error) (applied bool, err error) {
	outcome, err := store.Send(ctx, store.Attempts{Max: writeAttempts, Timeout: writeTimeout}, write)
	switch outcome {
	case store.Applied:
		return true, nil
	case store.Refused:
		return false, nil
	case store.Unknown:
		return false, fmt.Errorf("%w: %w", ErrUnknown, err)
	case store.Conflict, store.Throttled:
		return false, fmt.Errorf("%w: %w", ErrContended, err)
	case store.Rejected, store.NotSent:
	}
	return false, err
}
