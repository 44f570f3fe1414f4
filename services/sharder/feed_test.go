package sharder

import (
	"context"
	"log/slog"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"

	"github.com/tidegate/tidegate/engine"
	"github.com/tidegate/tidegate/internal/feed"
	"github.com/tidegate/tidegate/pkg/bucket"
	"github.com/tidegate/tidegate/pkg/events"
)

const patience = time.Minute

// running is a sharder under way.
type running struct {
	*Sharder
	conn     *nats.Conn
	registry *prometheus.Registry
	stop     context.CancelFunc
	ended    chan error
}

func (w *world) start(name string) *running {
	w.t.Helper()
	r := &running{conn: w.nats.Connect(w.t), registry: prometheus.NewRegistry(), ended: make(chan error, 1)}
	var err error
	r.Sharder, err = New(Config{
		NATS: r.conn, DynamoDB: engine.Config(w.Faults, "us-east-1"), Table: w.Table, Member: name,
		Clock: w.clock, Log: slog.New(slog.DiscardHandler), Metrics: r.registry,
		Tuning: Tuning{Look: 5 * time.Millisecond, Feed: feed.Tuning{ // a member is missed as late as by default
			Heartbeat: 100 * time.Millisecond, Poll: 100 * time.Millisecond, MaxBackoff: 100 * time.Millisecond, DrainTimeout: 5 * time.Second,
		}},
	})
	require.NoError(w.t, err)
	ctx, cancel := context.WithCancel(context.Background())
	r.stop = cancel
	go func() { r.ended <- r.Run(ctx) }()
	w.t.Cleanup(func() { r.stop(); r.conn.Close(); <-r.ended })
	select {
	case <-r.Ready():
	case err := <-r.ended:
		require.NoError(w.t, err)
	}
	return r
}

// feed is the change feed, to publish into.
func (w *world) feed() jetstream.JetStream {
	w.t.Helper()
	js, err := jetstream.New(w.nats.Connect(w.t))
	require.NoError(w.t, err)
	return js
}

// publish writes a second of load and then tells the feed of it: the sharders may
// divide the bucket as soon as they have heard of a part.
func (w *world) publish(js jetstream.JetStream, units int64) {
	w.t.Helper()
	w.pass(time.Second)
	tree := w.tree()
	for i, b := range tree {
		w.cost(b, bucket.Shard{Index: i, Count: len(tree)}.Share(units))
	}
	for i, b := range tree {
		after := *b
		after.WriteUnits += bucket.Shard{Index: i, Count: len(tree)}.Share(units)
		data, err := events.Encode(w.record(b, &after).Event)
		require.NoError(w.t, err)
		_, err = js.Publish(w.t.Context(), events.Subject(events.KindBucket, events.Lane(b.Key)), data)
		require.NoError(w.t, err)
	}
}

// becomes waits until the bucket has so many shards.
func (w *world) becomes(shards int) {
	w.t.Helper()
	require.Eventually(w.t, func() bool { return len(w.tree()) == shards }, patience, 5*time.Millisecond, "%d shards", shards)
}

// Sharders share the lanes of the feed: one of them sees to a bucket, another one
// takes over where that is cut off, and what none can read is in nobody's way.
func TestShardersShareTheFeed(t *testing.T) {
	w := newWorld(t)
	both := []*running{w.start("a"), w.start("b")}
	js := w.feed()
	w.usual()
	lane := events.Lane(testKey(0))
	_, err := js.Publish(t.Context(), events.Subject(events.KindBucket, lane), []byte("no record"))
	require.NoError(t, err)
	w.publish(js, 900)
	w.becomes(2)
	owner := 0
	require.Eventually(t, func() bool { // the step is counted when it is done
		if both[1].counted(double, "done") == 1 {
			owner = 1
		}
		return both[owner].counted(double, "done") == 1
	}, patience, time.Millisecond)
	require.Zero(t, both[1-owner].counted(double, "done"))
	require.InDelta(t, 1, metric(t, both[owner].registry, "tidegate_feed_skipped_total"), 0)
	dead, err := feed.NewDeadLetters(js).Count(t.Context(), service)
	require.NoError(t, err)
	require.Zero(t, dead)

	both[owner].conn.Close() // cut off
	both[owner].stop()
	require.Eventually(t, func() bool { return both[1-owner].owns(testKey(0)) }, patience, 5*time.Millisecond)
	w.pass(settleMs * time.Millisecond)
	w.publish(js, 1700)
	w.becomes(4)
	require.Eventually(t, func() bool { return both[1-owner].counted(double, "done") == 1 }, patience, time.Millisecond)
	require.EqualValues(t, 596, bucket.Floor(w.left()))
}

// What nodes report reaches the sharder that knows the bucket.
func TestReportsAreHeard(t *testing.T) {
	w := newWorld(t)
	s := w.start("a")
	js := w.feed()
	w.usual()
	w.publish(js, 100)
	require.Eventually(t, func() bool { all, _ := s.tracker.sizes(); return all == 1 }, patience, 5*time.Millisecond)
	data, err := events.EncodeLoad(&events.LoadReport{
		Node: "node", FromMs: w.ms() - 1000, ToMs: w.ms(), Loads: []events.Load{{Key: testKey(0), FailedUnits: 800}},
	})
	require.NoError(t, err)
	require.NoError(t, w.nats.Connect(t).Publish(events.LoadSubject, data))
	w.becomes(2)
}

// A sharder that is told to stop ends the step under way.
func TestAStepUnderWayComesToItsEnd(t *testing.T) {
	w := newWorld(t)
	s := w.start("a")
	js := w.feed()
	w.usual()
	here, open := make(chan struct{}), make(chan struct{})
	w.Before("TransactWriteItems", func() { close(here); <-open })
	w.publish(js, 900)
	<-here
	s.stop()
	close(open)
	require.NoError(t, <-s.ended)
	s.ended <- nil
	require.Len(t, w.tree(), 2)
	require.Equal(t, 1, s.counted(double, "done"))
}

// metric is the value of a counter.
func metric(t *testing.T, registry *prometheus.Registry, name string) float64 {
	t.Helper()
	families, err := registry.Gather()
	require.NoError(t, err)
	for _, f := range families {
		if f.GetName() == name {
			return f.GetMetric()[0].GetCounter().GetValue()
		}
	}
	require.Failf(t, "no such metric", name)
	return 0
}
