package outage

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/cenkalti/backoff/v5"
)

const (
	minPause = 100 * time.Millisecond
	maxPause = 2 * time.Second
	// attemptTimeout bounds an attempt, which a server that hangs would keep for ever. It
	// is the sum of a few requests with the timeout of JetStream's API, 5 s.
	attemptTimeout = 15 * time.Second
	// remindEvery is the number of attempts after which the log repeats the reason: half a
	// minute of the longest pause.
	remindEvery = 15
)

// Await calls attempt until it succeeds, with growing pauses of up to 2 s. It returns the
// first error that is a mistake at once, and the error of ctx when ctx ends. what names
// the awaited server in the log. An attempt must be repeatable; its context ends after
// 15 s.
func Await(ctx context.Context, log *slog.Logger, what string, attempt func(context.Context) error) error {
	pauses := backoff.NewExponentialBackOff()
	pauses.InitialInterval, pauses.MaxInterval, pauses.Multiplier = minPause, maxPause, 2
	failures, reason := 0, ""
	_, err := backoff.Retry(ctx, func() (struct{}, error) {
		call, cancel := context.WithTimeout(ctx, attemptTimeout)
		defer cancel()
		err := attempt(call)
		if err != nil && !Is(err) {
			err = backoff.Permanent(err)
		}
		return struct{}{}, err
	}, backoff.WithBackOff(pauses), backoff.WithMaxElapsedTime(0), backoff.WithNotify(func(err error, _ time.Duration) {
		if text := err.Error(); text != reason || failures%remindEvery == 0 {
			reason = text
			log.WarnContext(ctx, "waiting until it answers", "for", what, "attempts", failures+1, "error", err)
		}
		failures++
	}))
	switch {
	case err != nil && ctx.Err() != nil:
		return fmt.Errorf("wait for %s: %w", what, ctx.Err())
	case err == nil && failures > 0:
		log.InfoContext(ctx, "it answers: the start goes on", "for", what, "attempts", failures+1)
	}
	return err
}
