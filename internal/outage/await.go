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
	// minTimeout and maxTimeout bound an attempt. A cluster without a leader drops requests,
	// so that the first attempts are short; on a slow machine an attempt of many requests
	// takes long, so that each attempt may take twice as long as its predecessor.
	minTimeout = 2 * time.Second
	maxTimeout = 15 * time.Second
	// remindEvery is the number of attempts after which the log repeats the reason: half a
	// minute of the longest pause.
	remindEvery = 15
)

// Await calls attempt until it succeeds, with growing pauses of up to 2 s. It returns the
// first mistake at once, and the error of ctx when ctx ends. The log calls the awaited
// server by its name. An attempt must be repeatable; its context ends after 2 s at first,
// and after up to 15 s later.
func Await(ctx context.Context, log *slog.Logger, name string, attempt func(context.Context) error) error {
	pauses := backoff.NewExponentialBackOff()
	pauses.InitialInterval, pauses.MaxInterval, pauses.Multiplier = minPause, maxPause, 2
	failures, reason, timeout := 0, "", minTimeout
	_, err := backoff.Retry(ctx, func() (struct{}, error) {
		call, cancel := context.WithTimeout(ctx, timeout)
		defer cancel()
		timeout = min(2*timeout, maxTimeout)
		err := attempt(call)
		if err != nil && !Is(err) {
			err = backoff.Permanent(err)
		}
		return struct{}{}, err
	}, backoff.WithBackOff(pauses), backoff.WithMaxElapsedTime(0), backoff.WithNotify(func(err error, _ time.Duration) {
		if text := err.Error(); text != reason || failures%remindEvery == 0 {
			reason = text
			log.WarnContext(ctx, "waiting until it answers", "for", name, "attempts", failures+1, "error", err)
		}
		failures++
	}))
	switch {
	case err != nil && ctx.Err() != nil:
		return fmt.Errorf("wait for %s: %w", name, ctx.Err())
	case err == nil && failures > 0:
		log.InfoContext(ctx, "it answers: the start goes on", "for", name, "attempts", failures+1)
	}
	return err
}
