package archiver

import (
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"

	"github.com/tidegate/tidegate/internal/audit/archive"
	"github.com/tidegate/tidegate/internal/audit/archive/archivetest"
	"github.com/tidegate/tidegate/internal/feed"
	"github.com/tidegate/tidegate/pkg/events"
)

// befall lets every third write meet a fault.
func befall(seed uint64) func(*http.Request) archivetest.Fault {
	random := rand.New(rand.NewPCG(seed, 5))
	return func(r *http.Request) archivetest.Fault {
		if r.Method != http.MethodPut && random.IntN(10) > 0 {
			return archivetest.None
		}
		return []archivetest.Fault{archivetest.Failed, archivetest.Applied, archivetest.ReplyLost, archivetest.Unreachable, 0, 0, 0, 0, 0, 0}[random.IntN(10)]
	}
}

// Archivers come, leave and are killed at any step while events are deleted, in any
// order, and some are told of twice, or once more much later; every third write fails
// or seems to. In the end each event is read once.
func TestEachDeletedEventIsReadOnce(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 1))
	w := newWorld(t)
	var deleted []*events.Event
	for n := 1; n <= 1000; n++ {
		for _, ns := range namespaces() {
			deleted = append(deleted, deletion(ns, fmt.Sprintf("entity-%d", random.IntN(3)), n, random.IntN(2) == 0))
		}
	}
	random.Shuffle(len(deleted), func(i, j int) { deleted[i], deleted[j] = deleted[j], deleted[i] })
	alive := []*running{w.start(t, "member-0", tuning())}
	w.Each(befall(seed))
	for n := range 5 {
		for i, e := range deleted[400*n : 400*(n+1)] {
			w.publish(t, e)
			if random.IntN(10) == 0 {
				w.publish(t, deleted[random.IntN(400*n+i+1)])
			}
		}
		w.Each(nil) // for as long as an archiver looks whether it can write
		alive = append(alive, w.start(t, fmt.Sprintf("member-%d", n+1), tuning()))
		w.Each(befall(seed + uint64(n))) //nolint:gosec // a small number
		if len(alive) > 2 {
			one := random.IntN(len(alive) - 1)
			if random.IntN(2) == 0 {
				alive[one].kill()
			} else {
				alive[one].leave(t)
			}
			alive = append(alive[:one], alive[one+1:]...)
		}
	}
	w.drained(t)
	w.Each(nil)
	for _, r := range alive {
		r.leave(t)
	}
	mustHold(t, w.Open(t), deleted)
	t.Logf("%d events in %d objects", len(deleted), len(w.Keys(t)))
}

// The object store is away for an hour: nothing is acknowledged and nothing lost,
// whoever looks sees by how much the archivers are behind, and they catch up.
func TestAnHourWithoutAStore(t *testing.T) {
	w := newWorld(t)
	r := w.start(t, "a", calm())
	w.Each(func(*http.Request) archivetest.Fault { return archivetest.Unreachable })
	var deleted []*events.Event
	for n := 1; n <= 200; n++ {
		deleted = append(deleted, deletion(namespaces()[0], fmt.Sprintf("entity-%d", n%5), n, true))
	}
	w.publish(t, deleted...)
	require.Eventually(t, func() bool { return r.metric(t, "tidegate_feed_lanes_waiting") == 5 }, patience, time.Millisecond)
	w.ahead.Store(int64(time.Hour))
	require.Equal(t, 200, w.open(t), "nothing is acknowledged")
	require.Empty(t, w.Keys(t))
	require.GreaterOrEqual(t, r.metric(t, "tidegate_feed_oldest_seconds"), 3600.0)
	require.Positive(t, r.metric(t, "tidegate_archiver_objects_total"), "attempts are counted")
	status := r.group.Status(t.Context())
	require.GreaterOrEqual(t, *status.LagSeconds, 3600.0)
	require.EqualValues(t, 200, *status.Waiting)
	require.Equal(t, "lanes that fail and wait: 5, see the log", status.Warning)

	w.Each(nil)
	w.drained(t)
	mustHold(t, w.Open(t), deleted)
	require.Eventually(t, func() bool { return r.metric(t, "tidegate_feed_lanes_waiting") == 0 }, patience, time.Millisecond)
	require.Eventually(t, func() bool { return r.metric(t, "tidegate_feed_oldest_seconds") == 0 }, patience, time.Millisecond)
	require.InDelta(t, 200, r.metric(t, "tidegate_archiver_events_total"), 0)
	r.leave(t)
	require.True(t, r.conn.IsClosed())
}

// A batch waits for more until it is large or old enough, and an archiver that stops
// stores what it has.
func TestBatchesBySizeAndAge(t *testing.T) {
	w := newWorld(t)
	how := calm()
	how.Feed.Linger, how.Feed.Batch = time.Hour, 10
	r := w.start(t, "a", how)
	var deleted []*events.Event
	for n := 1; n <= 25; n++ {
		deleted = append(deleted, deletion(namespaces()[0], "alice", n, true))
	}
	lane := events.Lane(deleted[0].Key)
	for _, e := range deleted { // one by one, as they expire
		w.publish(t, e)
	}
	object := func(first, last int) string {
		return fmt.Sprintf("audit/%s/2026/03/01/%d-%d-%d.jsonl.gz", namespaces()[0], lane, first, last)
	}
	require.Eventually(t, func() bool { return len(w.Keys(t)) == 2 }, patience, time.Millisecond)
	require.Equal(t, []string{object(1, 10), object(11, 20)}, w.Keys(t))
	require.Eventually(t, func() bool { return w.open(t) == 5 }, patience, time.Millisecond, "five wait for more")
	r.leave(t)
	mustHold(t, w.Open(t), deleted)
	require.Zero(t, w.open(t))

	how.Feed.Linger = 200 * time.Millisecond
	r = w.start(t, "b", how)
	late := deletion(namespaces()[0], "alice", 30, true)
	w.publish(t, late)
	w.drained(t)
	mustHold(t, w.Open(t), append(deleted, late))
	r.leave(t)
}

// A record that no release can read is a dead letter; all others are stored.
func TestDeadLetters(t *testing.T) {
	w := newWorld(t)
	good := deletion(namespaces()[0], "alice", 1, true)
	_, err := w.js.Publish(t.Context(), events.Subject(events.KindAudit, events.Lane(good.Key)), []byte("no JSON"))
	require.NoError(t, err)
	w.publish(t, good)
	r := w.start(t, "a", calm())
	w.drained(t)
	mustHold(t, w.Open(t), []*events.Event{good})
	letters, _, err := feed.NewDeadLetters(w.js).List(t.Context(), service, 0, 10)
	require.NoError(t, err)
	require.Len(t, letters, 1)
	r.leave(t)
}

// What cannot be written ends an archiver at its start, and takes nothing off the
// feed: an unknown bucket, no permission, a store that is not there.
func TestAnArchiverThatCannotWriteDoesNotStart(t *testing.T) {
	w := newWorld(t)
	start := func(ctx context.Context, url string) error {
		a, err := archive.Open(ctx, url, archive.Options{AWS: archivetest.AWS})
		require.NoError(t, err)
		defer func() { require.NoError(t, a.Close()) }()
		r, err := New(Config{
			NATS: w.nats.Connect(t), Archive: a, Member: "a", Now: time.Now, Log: slog.New(slog.DiscardHandler), Metrics: prometheus.NewRegistry(), Tuning: calm(),
		})
		require.NoError(t, err)
		return r.Run(ctx)
	}
	require.ErrorContains(t, start(t.Context(), w.URL("another-bucket")), "NoSuchBucket")
	w.Each(func(*http.Request) archivetest.Fault { return archivetest.Denied })
	require.ErrorContains(t, start(t.Context(), w.URL(archivetest.Bucket)), "AccessDenied")
	stopped, stop := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer stop()
	require.NoError(t, start(stopped, "s3://bucket?region=us-east-1&endpoint=http://127.0.0.1:1"), "what is away is waited for until the stop")
	require.Zero(t, w.open(t), "nobody has joined")

	_, err := New(Config{})
	require.ErrorContains(t, err, "are required")
}
