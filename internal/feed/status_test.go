package feed_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tidegate/tidegate/internal/feed"
	"github.com/tidegate/tidegate/pkg/api"
	"github.com/tidegate/tidegate/pkg/events"
)

// A member says how much it has to do, since when, and what does not get on.
func TestAMemberSaysHowFarBehindItIs(t *testing.T) {
	w := newWorld(t)
	p := w.publisher(t)
	handle, batches := holding()
	m := w.member(t, "a", handle)
	status := func() api.ServiceStatus { return m.group.Status(t.Context()) }
	idle := status()
	require.EqualValues(t, events.Lanes, *idle.Lanes)
	require.Zero(t, *idle.Waiting)
	require.Zero(t, *idle.LagSeconds)
	require.Zero(t, *idle.DeadLetters)
	require.Empty(t, idle.Warning)

	p.publish(t, "alice")
	h := <-batches
	p.publish(t, "alice")
	p.publish(t, "alice")
	require.Eventually(t, func() bool { return *status().Waiting == 3 }, patience, time.Millisecond, "one under way, two behind it")
	since := *status().LagSeconds
	require.Eventually(t, func() bool { return *status().LagSeconds > since }, patience, time.Millisecond, "the lag grows")
	require.Empty(t, status().Warning)

	h.release <- errors.New("the store is down")
	h = <-batches
	require.Equal(t, "lanes that fail and wait: 1, see the log", status().Warning)
	h.release <- nil
	h = <-batches
	require.Empty(t, status().Warning)
	h.release <- nil
	for *status().Waiting > 0 { // the last may have come in a batch of its own
		select {
		case h := <-batches:
			h.release <- nil
		case <-time.After(time.Millisecond):
		}
	}
	require.Eventually(t, func() bool { return *status().LagSeconds == 0 }, patience, time.Millisecond)

	p.send(t, events.Subject(events.KindBucket, 0), []byte("no JSON"))
	require.Eventually(t, func() bool { return *status().DeadLetters == 1 }, patience, time.Millisecond)
	n, err := feed.NewDeadLetters(w.js).Count(t.Context(), "elsewhere")
	require.NoError(t, err)
	require.Zero(t, n)
}

// What NATS does not tell is left out, and said to be.
func TestAStatusWithoutNATS(t *testing.T) {
	w := newWorld(t)
	m := w.member(t, "a", func(context.Context, *feed.Batch) error { return nil })
	w.nats.Stop()
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	s := m.group.Status(ctx)
	require.Nil(t, s.Waiting)
	require.Nil(t, s.DeadLetters)
	require.EqualValues(t, events.Lanes, *s.Lanes)
	require.Contains(t, s.Warning, "NATS does not tell")
	m.crash()
}
