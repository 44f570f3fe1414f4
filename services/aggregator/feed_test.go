package aggregator

import (
	"context"
	"log/slog"
	"math/rand/v2"
	"strconv"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"

	"github.com/tidegate/tidegate/engine"
	"github.com/tidegate/tidegate/engine/fault"
	"github.com/tidegate/tidegate/internal/embednats/natstest"
	"github.com/tidegate/tidegate/internal/feed"
	"github.com/tidegate/tidegate/internal/table/tabletest"
	"github.com/tidegate/tidegate/pkg/events"
)

// feed is a NATS server with a change feed.
type changeFeed struct {
	nats *natstest.Server
	js   jetstream.JetStream
}

func newFeed(t *testing.T) *changeFeed {
	t.Helper()
	f := &changeFeed{nats: natstest.Start(t)}
	var err error
	f.js, err = jetstream.New(f.nats.Connect(t))
	require.NoError(t, err)
	_, err = feed.EnsureFeed(t.Context(), f.js, feed.Retention{})
	require.NoError(t, err)
	return f
}

func (f *changeFeed) publish(t *testing.T, e *events.Event) {
	t.Helper()
	data, err := events.Encode(e)
	require.NoError(t, err)
	_, err = f.js.Publish(t.Context(), events.Subject(events.KindBucket, events.Lane(e.Key)), data)
	require.NoError(t, err)
}

// running is an aggregator under way.
type running struct {
	conn  *nats.Conn
	stop  context.CancelFunc
	ended chan error
}

func (w *world) start(t *testing.T, f *changeFeed, name string) *running {
	t.Helper()
	r := &running{conn: f.nats.Connect(t), ended: make(chan error, 1)}
	a, err := New(Config{
		NATS: r.conn, DynamoDB: engine.Config(w.Faults, "us-east-1"), Table: w.Table, Member: name,
		Now: time.Now, Log: slog.New(slog.DiscardHandler), Metrics: prometheus.NewRegistry(),
		Tuning: Tuning{StoreTimeout: 100 * time.Millisecond, Feed: feed.Tuning{
			Batch: 32, Heartbeat: 100 * time.Millisecond, MemberTTL: time.Second, PinTTL: time.Second, AckWait: time.Second,
			Poll: 100 * time.Millisecond, MaxBackoff: 100 * time.Millisecond, DrainTimeout: 5 * time.Second,
		}},
	})
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(context.Background())
	r.stop = cancel
	go func() { r.ended <- a.Run(ctx) }()
	t.Cleanup(r.stop)
	select {
	case <-a.Ready():
	case err := <-r.ended:
		require.NoError(t, err)
	}
	return r
}

// drained waits until every record is acknowledged.
func (f *changeFeed) drained(t *testing.T) {
	t.Helper()
	stream, err := f.js.Stream(t.Context(), events.StreamName)
	require.NoError(t, err)
	natstest.Drained(t, stream)
}

// P7 over the feed itself: aggregators come, leave and are killed while records
// flow, some of them twice, and the store fails.
func TestUsageIsExactOverTheFeed(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	w, f, h := newWorld(t), newFeed(t), newHistory(seed)
	w.Faults.Match(tabletest.Mishaps(rand.New(rand.NewPCG(seed, 2))))
	random := rand.New(rand.NewPCG(seed, 3))
	alive := []*running{w.start(t, f, "member-0")}
	for n := 1; n <= 5; n++ {
		for range 150 {
			h.step(12)
			latest := h.records[len(h.records)-1]
			f.publish(t, latest)
			if random.IntN(20) == 0 {
				f.publish(t, latest)
			}
		}
		alive = append(alive, w.start(t, f, "member-"+strconv.Itoa(n)))
		if len(alive) > 2 {
			one := random.IntN(len(alive) - 1)
			if random.IntN(2) == 0 {
				alive[one].conn.Close() // killed: it acknowledges nothing more, and is missed
			}
			alive[one].stop()
			<-alive[one].ended
			alive = append(alive[:one], alive[one+1:]...)
		}
	}
	f.drained(t)
	for _, r := range alive {
		r.stop()
		require.NoError(t, <-r.ended)
	}
	w.Faults.Wait()
	h.mustBeCounted(t, w)
}

// A record that no release can read is a dead letter; all others are counted. A
// table that cannot be reached is waited for.
func TestOutagesAndDeadLetters(t *testing.T) {
	w, f, h := newWorld(t), newFeed(t), newHistory(1)
	for range 20 {
		w.Fail("UpdateItem", fault.Fault{Kind: fault.Unreachable})
	}
	h.one("alice", 0)
	lane := events.Lane(h.records[0].Key)
	_, err := f.js.Publish(t.Context(), events.Subject(events.KindBucket, lane), []byte("no JSON"))
	require.NoError(t, err)
	h.one("alice", 0)
	for _, e := range h.records {
		f.publish(t, e)
	}
	r := w.start(t, f, "a")
	f.drained(t)
	h.mustBeCounted(t, w)
	letters, _, err := feed.NewDeadLetters(f.js).List(t.Context(), service, 0, 10)
	require.NoError(t, err)
	require.Len(t, letters, 1)
	require.Equal(t, "no JSON", string(letters[0].Data))
	r.stop()
	require.NoError(t, <-r.ended)
	require.True(t, r.conn.IsClosed())
}

func TestWhatAnAggregatorNeeds(t *testing.T) {
	_, err := New(Config{})
	require.ErrorContains(t, err, "are required")
}
