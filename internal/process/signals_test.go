package process_test

import (
	"context"
	"os"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tidegate/tidegate/internal/process"
)

func TestTheFirstSignalStopsTheSecondAborts(t *testing.T) {
	received := make(chan os.Signal, 2)
	stop, abort, release := process.Signals(t.Context(), received)
	defer release()
	require.NoError(t, stop.Err())

	received <- os.Interrupt
	<-stop.Done()
	require.ErrorIs(t, context.Cause(stop), process.ErrSignal)
	require.ErrorContains(t, context.Cause(stop), os.Interrupt.String())
	require.NoError(t, abort.Err())

	received <- syscall.SIGTERM
	<-abort.Done()
	require.ErrorIs(t, context.Cause(abort), process.ErrSignal)
}

// The end of the parent asks for a stop; work may still be finished.
func TestTheParentStops(t *testing.T) {
	parent, cancel := context.WithCancel(t.Context())
	received := make(chan os.Signal, 2)
	stop, abort, release := process.Signals(parent, received)
	defer release()
	cancel()
	<-stop.Done()
	require.NoError(t, abort.Err())
}

func TestReleaseEndsBoth(t *testing.T) {
	stop, abort, release := process.Signals(t.Context(), make(chan os.Signal))
	release()
	require.ErrorIs(t, stop.Err(), context.Canceled)
	require.ErrorIs(t, abort.Err(), context.Canceled)
}
