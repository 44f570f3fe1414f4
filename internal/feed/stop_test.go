package feed_test

import (
	"context"
	"errors"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/stretchr/testify/require"

	"github.com/tidegate/tidegate/internal/feed"
	"github.com/tidegate/tidegate/pkg/events"
	"github.com/tidegate/tidegate/pkg/keys"
)

// held is a handler under way.
type held struct {
	ctx     context.Context //nolint:containedctx // what the test looks at
	release chan error
}

// holding hands each batch to the test, which says how it ends.
func holding() (handle func(context.Context, *feed.Batch) error, batches chan held) {
	batches = make(chan held)
	return func(ctx context.Context, _ *feed.Batch) error {
		h := held{ctx, make(chan error)}
		select {
		case batches <- h:
		case <-ctx.Done():
			return ctx.Err()
		}
		select {
		case err := <-h.release:
			return err
		case <-ctx.Done():
			return ctx.Err()
		}
	}, batches
}

// A batch may take as long as it likes: the server is told that it is worked on.
func TestAHandlerThatTakesLong(t *testing.T) {
	w := newWorld(t)
	p := w.publisher(t)
	tuning := fast()
	tuning.AckWait, tuning.PinTTL = 1500*time.Millisecond, 1500*time.Millisecond
	handle, batches := holding()
	var times atomic.Int64
	m := w.memberOf(t, "a", func(ctx context.Context, b *feed.Batch) error {
		times.Add(1)
		return handle(ctx, b)
	}, tuning, events.Decode)
	var told atomic.Int64
	spy := w.nats.Connect(t)
	_, err := spy.Subscribe("$JS.ACK.>", func(m *nats.Msg) {
		if strings.HasPrefix(string(m.Data), "+WPI") {
			told.Add(1)
		}
	})
	require.NoError(t, err)
	require.NoError(t, spy.Flush())
	p.publish(t, "alice")
	p.publish(t, "alice")
	first := <-batches
	require.Eventually(t, func() bool { return told.Load() >= 10 }, patience, time.Millisecond, "three times AckWait")
	first.release <- errors.New("and it fails") // the pause after that is told of too
	second := <-batches
	second.release <- nil
	for m.metric(t, "tidegate_feed_records_total") < 2 { // the second record may come in a batch of its own
		select {
		case third := <-batches:
			third.release <- nil
		case <-time.After(time.Millisecond):
		}
	}
	m.leave(t)
	require.Zero(t, m.metric(t, "tidegate_feed_resets_total"), "the server gave nothing again")
	require.LessOrEqual(t, times.Load(), int64(3))
}

// A member that is to stop lets its handlers end; what they did is not done again.
func TestAMemberStopsWhenItsBatchIsDone(t *testing.T) {
	w := newWorld(t)
	p := w.publisher(t)
	handle, batches := holding()
	a := w.member(t, "a", handle)
	p.publish(t, "alice")
	h := <-batches
	a.stop()
	p.publish(t, "alice")
	select {
	case h.release <- nil:
	case <-h.ctx.Done():
		require.Fail(t, "the handler is cancelled")
	}
	require.NoError(t, <-a.ended)
	next := newWatcher()
	w.member(t, "b", next.handle)
	require.Equal(t, "alice", next.next(t).entity)
	require.Empty(t, next.records, "the first record is not given again")
}

// One whose handler does not end is aborted, and its batch is another's.
func TestAMemberThatDoesNotStopIsAborted(t *testing.T) {
	w := newWorld(t)
	p := w.publisher(t)
	tuning := fast()
	tuning.DrainTimeout = 50 * time.Millisecond
	handle, batches := holding()
	a := w.memberOf(t, "a", handle, tuning, events.Decode)
	p.publish(t, "alice")
	h := <-batches
	a.stop()
	<-h.ctx.Done()
	require.NoError(t, <-a.ended)
	next := newWatcher()
	w.memberOf(t, "b", next.handle, fast(), events.Decode)
	require.Equal(t, "alice", next.next(t).entity)
}

// A batch of the largest events there can be is one batch all the same.
func TestABatchOfLargeEvents(t *testing.T) {
	w := newWorld(t)
	p := w.publisher(t)
	key := keys.Bucket{Namespace: ns, Entity: "alice", Resource: "gpt-4"}
	const n = 40
	for i := range n {
		at, err := events.NewPosition("2026-11-21T08:00:00.000", strconv.Itoa(i+1))
		require.NoError(t, err)
		data, err := events.Encode(&events.Event{Position: at, Key: key, Bucket: &events.Change[events.Bucket]{
			New: &events.Bucket{ShardCount: 1, Acquires: int64(i + 1), Fingerprint: strings.Repeat("x", 900<<10)},
		}})
		require.NoError(t, err)
		p.send(t, events.Subject(events.KindBucket, events.Lane(key)), data)
	}
	l := newLedger()
	w.member(t, "a", func(_ context.Context, b *feed.Batch) error { l.apply("a", b); return nil })
	l.mustHave(t, map[string]int64{"alice": n})
	require.Zero(t, l.again)
}
