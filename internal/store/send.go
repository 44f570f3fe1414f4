package store

import (
	"context"
	"errors"
	"time"

	smithytime "github.com/aws/smithy-go/time"

	"github.com/tidegate/tidegate/internal/jitter"
)

const (
	minPause = 5 * time.Millisecond
	maxPause = 200 * time.Millisecond
)

// Pause waits before a call is repeated: a random part of 5 ms, doubled with every
// attempt (the first is 0) up to 200 ms. The error is the context's.
func Pause(ctx context.Context, attempt int) error {
	longest := min(maxPause, minPause<<min(attempt, 10))
	return smithytime.SleepWithContext(ctx, 1+jitter.N(longest))
}

// Attempts bounds how long Send tries.
type Attempts struct {
	Max     int           // at least 1
	Timeout time.Duration // of one attempt, so that a lost reply leaves time for a repeat
}

// Send repeats a write until its outcome is known, or the attempts or the context
// end. It returns the outcome and the error of the last attempt.
//
// The write must tolerate repeats: a transaction with a client token, which
// DynamoDB applies only once, or a write whose condition fails after it was
// applied. In the second case Refused may mean that an earlier attempt was applied.
// The client must not retry by itself.
//
//	Applied, Refused, Rejected    end at once
//	Conflict                      repeats at once, then after a pause
//	Throttled, NotSent, Unknown   repeat after a pause
//
// If any attempt was Unknown and no later attempt was Applied or Refused, the
// outcome is Unknown: the lost attempt may still arrive.
func Send(ctx context.Context, attempts Attempts, write func(context.Context) error) (Outcome, error) {
	lost := false // the outcome of an attempt is unknown
	for n := 0; ; n++ {
		err := attempt(ctx, attempts.Timeout, write)
		outcome := OutcomeOf(err)
		switch outcome {
		case Applied, Refused:
			return outcome, err
		case Unknown:
			lost = true
		case Rejected, Conflict, Throttled, NotSent:
		}
		repeat := outcome != Rejected && n+1 < attempts.Max
		if repeat && (n > 0 || outcome != Conflict) {
			if errPause := Pause(ctx, n); errPause != nil {
				repeat, err = false, errors.Join(err, errPause)
			}
		}
		if repeat {
			continue
		}
		if lost {
			outcome = Unknown
		}
		return outcome, err
	}
}

func attempt(ctx context.Context, timeout time.Duration, write func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	return write(ctx)
}
