package archiver

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"

	"github.com/tidegate/tidegate/internal/audit"
	"github.com/tidegate/tidegate/internal/audit/archive"
	"github.com/tidegate/tidegate/internal/audit/archive/archivetest"
	"github.com/tidegate/tidegate/internal/embednats/natstest"
	"github.com/tidegate/tidegate/internal/feed"
	"github.com/tidegate/tidegate/pkg/api"
	"github.com/tidegate/tidegate/pkg/events"
	"github.com/tidegate/tidegate/pkg/keys"
)

// namespaces are the tenants of a test.
func namespaces() []string { return []string{"AAAAAAAAAAA", "AAAAAAAAAAE"} }

func midnight() time.Time { return time.Date(2026, 3, 2, 0, 0, 0, 0, time.UTC) }

// deletion is a record of an audit event that has left the table: number n of a
// namespace, of a target, dated by the number, around midnight.
func deletion(namespace, target string, n int, expired bool) *events.Event {
	key := keys.Audit{Namespace: namespace, ID: target, AtMs: midnight().Add(time.Duration(n-500) * time.Second).UnixMilli(), Sequence: int64(n)}
	record, err := json.Marshal(api.AuditEvent{
		ID: fmt.Sprintf("%d-%d", key.AtMs, n), Namespace: namespace, Sequence: int64(n), AtMs: key.AtMs, Target: target,
		Action: api.AuditLimitsSet, After: json.RawMessage(`{"n":` + strconv.Itoa(n) + `}`), Key: "AQIDBA", MAC: "bWFj",
	})
	if err != nil {
		panic(err) // it is no matter of the test
	}
	at, err := events.NewPosition("2026-11-21T08:00:00.000", strconv.Itoa(n))
	if err != nil {
		panic(err)
	}
	return &events.Event{
		Position: at, AtMs: midnight().Add(time.Hour).UnixMilli(), Expired: expired, Key: key,
		Audit: &events.Change[events.Audit]{Old: &events.Audit{Record: record}},
	}
}

// made is the record of an event that came into the table.
func made(e *events.Event) *events.Event {
	e.Audit.Old, e.Audit.New = nil, e.Audit.Old
	return e
}

func batch(all ...*events.Event) *feed.Batch {
	b := &feed.Batch{Lane: 7}
	for _, e := range all {
		b.Records = append(b.Records, feed.Record{Event: e})
	}
	return b
}

// world is an object store and a NATS server with a change feed.
type world struct {
	*archivetest.S3
	nats  *natstest.Server
	js    jetstream.JetStream
	ahead atomic.Int64 // of the archivers' clock, nanoseconds
}

func newWorld(t *testing.T) *world {
	t.Helper()
	w := &world{S3: archivetest.New(t), nats: natstest.Start(t)}
	var err error
	w.js, err = jetstream.New(w.nats.Connect(t))
	require.NoError(t, err)
	_, err = feed.EnsureFeed(t.Context(), w.js, feed.Retention{})
	require.NoError(t, err)
	return w
}

func (w *world) publish(t *testing.T, all ...*events.Event) {
	t.Helper()
	for _, e := range all {
		data, err := events.Encode(e)
		require.NoError(t, err)
		_, err = w.js.Publish(t.Context(), events.Subject(events.KindAudit, events.Lane(e.Key)), data)
		require.NoError(t, err)
	}
}

// running is an archiver under way.
type running struct {
	*Archiver
	conn    *nats.Conn
	metrics *prometheus.Registry
	stop    context.CancelFunc
	ended   chan error
}

// patience is how long tests wait for what must come: only what hangs takes so long.
const patience = time.Minute

// tuning are times of archivers that others are to take lanes from when they are gone,
// as they do from those who are merely slow.
func tuning() Tuning {
	return Tuning{StoreTimeout: patience, Feed: feed.Tuning{
		Batch: 32, Linger: 50 * time.Millisecond, Heartbeat: 100 * time.Millisecond, MemberTTL: time.Second, PinTTL: time.Second, AckWait: time.Second,
		Poll: 50 * time.Millisecond, MaxBackoff: 100 * time.Millisecond, DrainTimeout: 5 * time.Second,
	}}
}

// calm are those of one that nobody takes anything from, nor gives it again, however
// slow the machine is.
func calm() Tuning {
	how := tuning()
	how.Feed.MemberTTL, how.Feed.PinTTL, how.Feed.AckWait = patience, patience, patience
	return how
}

func (w *world) start(t *testing.T, member string, how Tuning) *running {
	t.Helper()
	r := &running{conn: w.nats.Connect(t), metrics: prometheus.NewRegistry(), ended: make(chan error, 1)}
	var err error
	r.Archiver, err = New(Config{
		NATS: r.conn, Archive: w.Open(t), Member: member, Now: func() time.Time { return time.Now().Add(time.Duration(w.ahead.Load())) },
		Log: slog.New(slog.DiscardHandler), Metrics: r.metrics, Tuning: how,
	})
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(context.Background())
	r.stop = cancel
	go func() { r.ended <- r.Run(ctx) }()
	t.Cleanup(r.stop)
	select {
	case <-r.Ready():
	case err := <-r.ended:
		require.NoError(t, err)
	}
	return r
}

// leave ends an archiver as a signal would.
func (r *running) leave(t *testing.T) {
	t.Helper()
	r.stop()
	require.NoError(t, <-r.ended)
}

// kill cuts it off: it acknowledges nothing more, and is missed.
func (r *running) kill() {
	r.conn.Close()
	r.stop()
	<-r.ended // with whatever error
}

// metric is the sum of a metric over its labels.
func (r *running) metric(t *testing.T, name string) (sum float64) {
	t.Helper()
	families, err := r.metrics.Gather()
	require.NoError(t, err)
	for _, f := range families {
		for _, m := range f.GetMetric() {
			if f.GetName() == name {
				sum += m.GetCounter().GetValue() + m.GetGauge().GetValue()
			}
		}
	}
	return sum
}

// open is how many records are not acknowledged.
func (w *world) open(t *testing.T) (n int) {
	t.Helper()
	stream, err := w.js.Stream(t.Context(), events.StreamName)
	require.NoError(t, err)
	list := stream.ListConsumers(t.Context())
	for info := range list.Info() {
		n += int(info.NumPending) + info.NumAckPending //nolint:gosec // a count
	}
	require.NoError(t, list.Err())
	return n
}

// drained waits until every record is acknowledged.
func (w *world) drained(t *testing.T) {
	t.Helper()
	require.Eventually(t, func() bool { return w.open(t) == 0 }, patience, 20*time.Millisecond, "the feed is not handled to its end")
}

// mustHold reads the archive page by page: it has each of the events once, as they
// were, and no other.
func mustHold(t *testing.T, a *archive.Archive, deleted []*events.Event) {
	t.Helper()
	want := map[string]api.AuditEvent{}
	for _, e := range deleted {
		event, err := deletedEvent(&feed.Record{Event: e}, e.Key.(keys.Audit))
		require.NoError(t, err)
		want[event.Namespace+event.ID] = event
	}
	found := 0
	for _, ns := range namespaces() {
		q := audit.ArchiveQuery{Namespace: ns, Events: 17, Bytes: 1 << 20}
		for {
			page, err := a.Page(t.Context(), q)
			require.NoError(t, err)
			for _, f := range page.Found {
				require.Equal(t, want[ns+f.Event.ID], f.Event)
				delete(want, ns+f.Event.ID)
				found++
			}
			if q.Before = page.Down.Position; page.Down == (audit.Place{}) {
				break
			}
		}
	}
	require.Empty(t, want, "%d were found", found)
}
