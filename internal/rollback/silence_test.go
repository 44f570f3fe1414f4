package rollback_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// A guard reports for how long the leader has not answered, until it answers.
func TestSilence(t *testing.T) {
	w := newWorld(t)
	n := w.start(fast())
	<-n.Ready()
	require.Zero(t, n.Silence())
	w.nats.Stop()
	require.Eventually(t, func() bool { return n.Silence() > 10*time.Millisecond }, patience, time.Millisecond)
	w.nats.Restart(t)
	require.Eventually(t, func() bool { return n.Silence() == 0 }, patience, time.Millisecond)
}
