package relay

import (
	"log/slog"
	"net/http"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"

	"github.com/tidegate/tidegate/engine"
	"github.com/tidegate/tidegate/internal/embednats/natstest"
	"github.com/tidegate/tidegate/internal/feed"
	"github.com/tidegate/tidegate/internal/leader"
	"github.com/tidegate/tidegate/pkg/events"
)

// fencedReader returns a reader of a relay that does not run, on a feed without markers.
func fencedReader(t *testing.T) *reader {
	t.Helper()
	nc := natstest.Start(t).Connect(t)
	store := engine.New(engine.Options{Now: time.Now})
	r, err := New(Config{
		NATS: nc, DynamoDB: engine.Config(&http.Client{Transport: store.HTTPClient()}, "us-east-1"), Table: "tidegate", Member: "one",
		Now: time.Now, Log: slog.New(slog.DiscardHandler), Metrics: prometheus.NewRegistry(),
	})
	require.NoError(t, err)
	js, err := jetstream.New(nc)
	require.NoError(t, err)
	_, err = feed.EnsureFeed(t.Context(), js, feed.Retention{})
	require.NoError(t, err)
	return &reader{relay: r, at: source{arn: "new", shard: "shard-1"}}
}

// A page that was read in an older term of the feed is not published: the feed may have
// forgotten what was before it.
func TestNothingIsPublishedInAnOldTerm(t *testing.T) {
	r := fencedReader(t)
	mark := checkpoint{Stream: "new", Shard: "shard-1", Sequence: "7"}
	require.ErrorIs(t, r.publish(t.Context(), nil, mark), errNewTerm)
	stored, err := lastMarker(t.Context(), r.relay.cfg.NATS, "shard-1")
	require.NoError(t, err)
	require.Zero(t, stored.number)

	r.term, err = leader.TermOf(t.Context(), r.relay.cfg.NATS, events.StreamName)
	require.NoError(t, err)
	require.NoError(t, r.publish(t.Context(), nil, mark))
}

// A stream that was enabled again may have a shard with the name of an older one: its
// marker fences, and says nothing about the records.
func TestAMarkerOfAnotherStreamIsOnlyAFence(t *testing.T) {
	r := fencedReader(t)
	nc := r.relay.cfg.NATS
	batch, err := publish(t.Context(), nc, nil, checkpoint{Stream: "old", Shard: "shard-1", Sequence: "7", Closed: true}, 0)
	require.NoError(t, err)
	m, err := loadMarker(t.Context(), nc, r.at)
	require.NoError(t, err)
	require.False(t, m.begun)
	require.Equal(t, checkpoint{Stream: "new", Shard: "shard-1"}, m.checkpoint)
	require.Equal(t, batch.Last, m.number)
}
