package relay_test

import (
	"bytes"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/require"

	"github.com/tidegate/tidegate/engine"
	"github.com/tidegate/tidegate/engine/fault"
	"github.com/tidegate/tidegate/internal/feed"
	"github.com/tidegate/tidegate/internal/table"
	"github.com/tidegate/tidegate/pkg/events"
	"github.com/tidegate/tidegate/pkg/keys"
)

// keepFirst forgets all but the first changes of each item: the others will be lost.
func (w *world) keepFirst(n int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for key, changes := range w.written {
		w.written[key] = changes[:min(n, len(changes))]
		if n == 0 {
			delete(w.written, key)
		}
	}
}

// generations writes for as long as three generations of stream shards last.
func (w *world) generations(n int64) int64 {
	for range 3 {
		w.clock.advance(5 * time.Hour)
		w.spendAll(n, n+9)
		n += 10
	}
	return n
}

// No relay runs for more than a day, in which the stream shard rolls over more than
// once. The shards in between go unread, and are not listed when a relay starts: there
// is no marker of the parent of the shard that it reads first.
func TestLostGenerationsAreTold(t *testing.T) {
	w := newWorld(t, engine.StreamOptions{}, fault.Options{})
	p := w.start("a", fast())
	w.spendAll(1, 10)
	w.mustArrive()
	p.leave(t)
	n := w.generations(11)
	w.keepFirst(10)
	w.clock.advance(26 * time.Hour)
	w.spendAll(n, n+9)

	p, q := w.start("b", fast()), w.start("c", fast())
	w.mustArrive()
	p.leave(t)
	q.leave(t)
	require.Equal(t, 1, p.metric(t, "tidegate_relay_trimmed_total")+q.metric(t, "tidegate_relay_trimmed_total"), "30 changes of each entity are lost")
	p = w.start("d", fast())
	w.spendAll(n+10, n+19)
	w.mustArrive()
	require.Zero(t, p.metric(t, "tidegate_relay_trimmed_total"), "a loss is told once")
}

// The parent was read to its end, then no relay ran until the oldest changes of its
// child were gone. The child is still listed, and has no marker.
func TestALostBeginningIsTold(t *testing.T) {
	w := newWorld(t, engine.StreamOptions{ShardRecords: 50, OpenShards: 1, ShardAge: 1000 * time.Hour}, fault.Options{})
	p := w.start("a", fast())
	w.spendAll(1, 10)                                           // as many as the first shard takes
	w.put(table.EncodeVersion(keys.Version{Namespace: ns}, 11)) // into its child, and not for the feed
	w.mustArrive()
	js := w.jetstream()
	require.Eventually(t, func() bool { return closed(t, js) == 1 }, patience, 5*time.Millisecond)
	p.leave(t)
	w.spendAll(11, 15)
	w.keepFirst(10)
	w.clock.advance(26 * time.Hour)
	w.spendAll(16, 18)
	p = w.start("b", fast())
	w.mustArrive()
	require.Equal(t, 1, p.metric(t, "tidegate_relay_trimmed_total"))
}

// closed counts the stream shards that were read to their end.
func closed(t *testing.T, js jetstream.JetStream) (n int) {
	t.Helper()
	stream, err := js.Stream(t.Context(), events.StreamName)
	require.NoError(t, err)
	info, err := stream.Info(t.Context(), jetstream.WithSubjectFilter(events.CheckpointsAll))
	require.NoError(t, err)
	for subject := range info.State.Subjects {
		m, err := stream.GetLastMsgForSubject(t.Context(), subject)
		require.NoError(t, err)
		if bytes.Contains(m.Data, []byte(`"closed":true`)) {
			n++
		}
	}
	return n
}

// A relay that is the first one of a table cannot have lost anything, however often
// the stream rolled over before it, and whichever relay reads which shard when. The
// feed may have had another table before.
func TestAFirstStartLosesNothing(t *testing.T) {
	w := newWorld(t, engine.StreamOptions{OpenShards: 4}, fault.Options{})
	n := w.generations(1)
	w.keepFirst(0)
	w.clock.advance(26 * time.Hour)
	_, err := feed.EnsureFeed(t.Context(), w.jetstream(), feed.Retention{})
	require.NoError(t, err)
	_, err = w.jetstream().Publish(t.Context(), events.CheckpointSubject("shard-1"),
		[]byte(`{"stream":"arn:aws:dynamodb:us-east-1:000000000000:table/other/stream/2026-11-21T12:00:00.000","shard":"shard-1","closed":true}`))
	require.NoError(t, err)
	w.spend("entity-0", n) // the other shards stay without records for now
	p := w.start("a", fast())
	w.mustArrive()
	p.leave(t)
	require.Zero(t, p.metric(t, "tidegate_relay_trimmed_total"))
	w.spendAll(n+1, n+10)
	p, q := w.start("b", fast()), w.start("c", fast())
	w.mustArrive()
	require.Zero(t, p.metric(t, "tidegate_relay_trimmed_total")+q.metric(t, "tidegate_relay_trimmed_total"))
}

// The shards of a stream that was enabled anew join nothing, and nothing of it is lost.
func TestANewStreamLosesNothing(t *testing.T) {
	w := newWorld(t, engine.StreamOptions{OpenShards: 2}, fault.Options{})
	p := w.start("a", fast())
	w.spendAll(1, 10)
	w.mustArrive()
	w.stream(false)
	w.stream(true)
	w.generations(11)
	w.mustArrive()
	p.leave(t)
	require.Zero(t, p.metric(t, "tidegate_relay_trimmed_total"))
}

// Relays have read an older stream. All that the first shards of a newer one had is
// gone before they see it.
func TestTheBeginningOfANewStreamIsLost(t *testing.T) {
	w := newWorld(t, engine.StreamOptions{}, fault.Options{})
	p := w.start("a", fast())
	w.spendAll(1, 10)
	w.mustArrive()
	w.stream(false)
	p.leave(t)
	w.stream(true)
	n := w.generations(11)
	w.keepFirst(10)
	w.clock.advance(26 * time.Hour)
	w.spendAll(n, n+9)
	p = w.start("b", fast())
	w.mustArrive()
	require.Equal(t, 1, p.metric(t, "tidegate_relay_trimmed_total"))
}
