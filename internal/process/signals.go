package process

import (
	"context"
	"errors"
	"fmt"
	"os"
)

// ErrSignal is the cause of a context that a signal ended.
var ErrSignal = errors.New("received a signal")

// Signals makes two contexts of a process's signals: stop ends with the first
// signal, or with ctx; abort, which stop also ends with, with the second. release
// gives up listening and returns once that has ended; it ends both.
//
// The channel must have room for two signals, as signal.Notify does not wait.
// After the second nothing reads the channel: the caller lets signals have
// their usual effect by then, so that a third signal kills.
//
//	received := make(chan os.Signal, 2)
//	signal.Notify(received, os.Interrupt, syscall.SIGTERM)
//	stop, abort, release := process.Signals(ctx, received)
//	defer release()
//	context.AfterFunc(abort, func() { signal.Stop(received) })
func Signals(ctx context.Context, received <-chan os.Signal) (stop, abort context.Context, release func()) {
	// Abort outlives ctx: the end of ctx asks for a stop, not for more.
	abort, abortNow := context.WithCancelCause(context.WithoutCancel(ctx))
	stop, stopNow := context.WithCancelCause(abort)
	unlink := context.AfterFunc(ctx, func() { stopNow(context.Cause(ctx)) })
	released, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		for _, end := range []context.CancelCauseFunc{stopNow, abortNow} {
			select {
			case s := <-received:
				end(fmt.Errorf("%w: %s", ErrSignal, s))
			case <-released:
				return
			}
		}
	}()
	return stop, abort, func() {
		unlink()
		close(released)
		<-ended
		abortNow(nil)
	}
}
