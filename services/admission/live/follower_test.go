package live

import (
	"context"
	"log/slog"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/require"

	"github.com/tidegate/tidegate/internal/embednats/natstest"
	"github.com/tidegate/tidegate/internal/feed"
	"github.com/tidegate/tidegate/pkg/events"
	"github.com/tidegate/tidegate/pkg/keys"
)

// patience is how long a test waits for an event that must come.
const patience = 30 * time.Second

func eventually(t *testing.T, condition func() bool, why string) {
	t.Helper()
	require.Eventually(t, condition, patience, time.Millisecond, why)
}

// A follower waits for a feed. It reports Missed whenever it begins with a consumer, and
// changes after that.
func TestAFollowerReplacesItsConsumer(t *testing.T) {
	server := natstest.Start(t)
	nc := server.Connect(t)
	sink := &recordingSink{}
	f := NewFollower(Config{NATS: nc, Log: slog.New(slog.DiscardHandler), Heartbeat: MinHeartbeat, Sink: sink})
	require.NoError(t, f.Open())
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() { defer close(ended); f.Run(ctx) }()
	var js jetstream.JetStream // of a connection of its own
	connect := func() {
		var err error
		js, err = jetstream.New(server.Connect(t))
		require.NoError(t, err)
	}
	connect()
	require.False(t, f.Following(), "there is no feed")

	missed := 0
	for _, lose := range []func(){
		func() {},
		func() {
			stream, err := js.Stream(t.Context(), events.StreamName)
			require.NoError(t, err)
			for c := range stream.ListConsumers(t.Context()).Info() {
				require.NoError(t, stream.DeleteConsumer(t.Context(), c.Name))
			}
		},
		func() {
			server.Stop()
			server.Restart(t)
			connect()
		},
	} {
		lose()
		_, err := feed.EnsureFeed(t.Context(), js, feed.Retention{})
		require.NoError(t, err)
		eventually(t, func() bool { return sink.timesMissed() > missed && f.Following() }, "the feed is followed")
		missed = sink.timesMissed()
	}

	e := configEvent(keys.ResourceConfig{Namespace: "AAAAAAAAAAA", Resource: "gpt-4"})
	var err error
	e.Position, err = events.NewPosition("2026-11-21T08:00:00.000", "1")
	require.NoError(t, err)
	data, err := events.Encode(e)
	require.NoError(t, err)
	_, err = js.Publish(t.Context(), events.Subject(e.Kind(), events.Lane(e.Key)), data)
	require.NoError(t, err)
	eventually(t, func() bool {
		sink.mu.Lock()
		defer sink.mu.Unlock()
		return len(sink.places) == 1 && sink.places[0] == Place{Namespace: "AAAAAAAAAAA", Resource: "gpt-4"}
	}, "the change")

	stop()
	<-ended
}
