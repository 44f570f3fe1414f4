package store_test

import (
	"context"
	"errors"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/stretchr/testify/require"

	"github.com/tidegate/tidegate/internal/store"
)

func TestSendRepeatsUntilTheOutcomeIsKnown(t *testing.T) {
	var (
		refused  error = &types.ConditionalCheckFailedException{}
		conflict error = &types.TransactionConflictException{}
		throttle error = &types.ThrottlingException{}
		lost           = context.DeadlineExceeded
		denied         = replied(400, errors.New("denied"))
		down     error = syscall.ECONNREFUSED
	)
	for name, c := range map[string]struct {
		replies []error // the last one repeats
		want    store.Outcome
		calls   int
	}{
		"applied":                {[]error{nil}, store.Applied, 1},
		"refused":                {[]error{refused}, store.Refused, 1},
		"rejected":               {[]error{denied}, store.Rejected, 1},
		"conflict, then applied": {[]error{conflict, nil}, store.Applied, 2},
		"conflicts":              {[]error{conflict}, store.Conflict, 4},
		"throttles":              {[]error{throttle}, store.Throttled, 4},
		"never sent":             {[]error{down}, store.NotSent, 4},
		"lost, then applied":     {[]error{lost, nil}, store.Applied, 2},
		"lost, then refused":     {[]error{lost, refused}, store.Refused, 2},
		"lost, then throttled":   {[]error{lost, throttle}, store.Unknown, 4},
		"lost, then rejected":    {[]error{lost, denied}, store.Unknown, 2},
		"lost":                   {[]error{lost}, store.Unknown, 4},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				calls := 0
				outcome, err := store.Send(t.Context(), store.Attempts{Max: 4, Timeout: time.Second}, func(context.Context) error {
					calls++
					return c.replies[min(calls, len(c.replies))-1]
				})
				require.Equal(t, c.want.String(), outcome.String())
				require.Equal(t, c.calls, calls)
				require.Equal(t, c.want == store.Applied, err == nil)
			})
		})
	}
}

// A conflict is over at once; a throttle is not.
func TestSendPausesAfterAThrottle(t *testing.T) {
	for _, c := range []struct {
		failure error
		pauses  bool
	}{{&types.TransactionConflictException{}, false}, {&types.ThrottlingException{}, true}} {
		synctest.Test(t, func(t *testing.T) {
			began, calls := time.Now(), 0
			outcome, err := store.Send(t.Context(), store.Attempts{Max: 2, Timeout: time.Second}, func(context.Context) error {
				if calls++; calls == 1 {
					return c.failure
				}
				return nil
			})
			require.NoError(t, err)
			require.Equal(t, store.Applied, outcome)
			require.Equal(t, c.pauses, time.Since(began) > 0)
		})
	}
}

func TestSendBoundsEachAttemptAndEndsWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hangs := func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() }
		began := time.Now()
		outcome, err := store.Send(t.Context(), store.Attempts{Max: 1, Timeout: time.Second}, hangs)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.Equal(t, store.Unknown, outcome)
		require.Equal(t, time.Second, time.Since(began))

		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		calls := 0
		outcome, err = store.Send(ctx, store.Attempts{Max: 9, Timeout: time.Second}, func(context.Context) error {
			calls++
			return &types.ThrottlingException{}
		})
		require.ErrorIs(t, err, context.Canceled)
		require.Equal(t, store.Throttled, outcome, "the one attempt was certainly not applied")
		require.Equal(t, 1, calls)
	})
}
