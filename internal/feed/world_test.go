package feed_test

import (
	"context"
	"log/slog"
	"strconv"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"

	"github.com/tidegate/tidegate/internal/embednats/natstest"
	"github.com/tidegate/tidegate/internal/feed"
	"github.com/tidegate/tidegate/pkg/events"
	"github.com/tidegate/tidegate/pkg/keys"
)

const ns = "AAAAAAAAAAA"

// world is a NATS server with a feed.
type world struct {
	nats *natstest.Server
	js   jetstream.JetStream
}

func newWorld(t *testing.T) *world {
	t.Helper()
	w := &world{nats: natstest.Start(t)}
	w.js = w.connect(t)
	_, err := feed.EnsureFeed(t.Context(), w.js, feed.Retention{})
	require.NoError(t, err)
	return w
}

func (w *world) connect(t *testing.T) jetstream.JetStream {
	t.Helper()
	js, err := jetstream.New(w.nats.Connect(t, nats.ReconnectBufSize(nats.DefaultReconnectBufSize)))
	require.NoError(t, err)
	return js
}

// publish puts the next events of buckets into the feed: each counts its
// bucket's acquires up by one.
type publisher struct {
	js   jetstream.JetStream
	last map[string]int64
	n    int
}

func (p *publisher) publish(t *testing.T, entity string) {
	t.Helper()
	require.NoError(t, p.put(entity))
}

// put is publish from any goroutine.
func (p *publisher) put(entity string) error {
	p.n++
	p.last[entity]++
	at, err := events.NewPosition("2026-11-21T08:00:00.000", strconv.Itoa(p.n))
	if err != nil {
		return err
	}
	key := keys.Bucket{Namespace: ns, Entity: entity, Resource: "gpt-4"}
	data, err := events.Encode(&events.Event{
		Position: at, AtMs: 1763712000000, Key: key,
		Bucket: &events.Change[events.Bucket]{New: &events.Bucket{ShardCount: 1, Acquires: p.last[entity]}},
	})
	if err == nil {
		_, err = p.js.Publish(context.Background(), events.Subject(events.KindBucket, events.Lane(key)), data)
	}
	return err
}

func (p *publisher) send(t *testing.T, subject string, data []byte) {
	t.Helper()
	_, err := p.js.Publish(t.Context(), subject, data)
	require.NoError(t, err)
}

func (w *world) publisher(t *testing.T) *publisher {
	t.Helper()
	return &publisher{js: w.connect(t), last: map[string]int64{}}
}

// patience is how long tests wait for what must come: only what hangs takes so long.
const patience = time.Minute

// fast are the times of a member in tests whose lanes others are to take when it is
// gone, as they do when it is merely slow.
func fast() feed.Tuning {
	return feed.Tuning{
		Batch: 64, Heartbeat: 100 * time.Millisecond, MemberTTL: time.Second, PinTTL: time.Second,
		AckWait: time.Second, Poll: 100 * time.Millisecond, MaxBackoff: 100 * time.Millisecond, DrainTimeout: 5 * time.Second,
	}
}

// calm are those of a member that nobody takes anything from, nor gives it again,
// however slow the machine is.
func calm() feed.Tuning {
	tuning := fast()
	tuning.MemberTTL, tuning.PinTTL, tuning.AckWait = patience, patience, patience
	return tuning
}

// member is a running member of the group "test".
type member struct {
	group   *feed.Group
	metrics *prometheus.Registry
	conn    *nats.Conn
	stop    context.CancelFunc
	ended   chan error
}

func (w *world) member(t *testing.T, name string, handle func(context.Context, *feed.Batch) error) *member {
	t.Helper()
	return w.memberOf(t, name, handle, calm(), events.Decode)
}

// memberOf is a member with times and a release of its own.
func (w *world) memberOf(t *testing.T, name string, handle func(context.Context, *feed.Batch) error, tuning feed.Tuning,
	decode func([]byte) (*events.Event, error),
) *member {
	t.Helper()
	m := &member{metrics: prometheus.NewRegistry(), conn: w.nats.Connect(t), ended: make(chan error, 1)}
	js, err := jetstream.New(m.conn)
	require.NoError(t, err)
	g, err := feed.New(feed.Config{
		JetStream: js, Service: "test", Member: name, Kinds: []events.Kind{events.KindBucket}, Handle: handle,
		Now: time.Now, Log: slog.New(slog.DiscardHandler), Metrics: m.metrics, Tuning: tuning,
	})
	require.NoError(t, err)
	g.Decoding(decode)
	m.group = g
	ctx, cancel := context.WithCancel(context.Background())
	m.stop = cancel
	go func() { m.ended <- g.Run(ctx) }()
	t.Cleanup(m.stop)
	select {
	case <-g.Ready():
	case err := <-m.ended:
		require.NoError(t, err)
	}
	return m
}

// metric is the value of a counter or gauge of the member.
func (m *member) metric(t *testing.T, name string) float64 {
	t.Helper()
	families, err := m.metrics.Gather()
	require.NoError(t, err)
	for _, f := range families {
		if f.GetName() == name {
			one := f.GetMetric()[0]
			return one.GetCounter().GetValue() + one.GetGauge().GetValue()
		}
	}
	require.Failf(t, "no such metric", name)
	return 0
}

// leave stops the member as a signal would.
func (m *member) leave(t *testing.T) {
	t.Helper()
	m.stop()
	require.NoError(t, <-m.ended)
}

// crash cuts the member off: it neither leaves its group nor acknowledges any more.
func (m *member) crash() {
	m.conn.Close()
	m.stop()
	<-m.ended // with whatever error
}
