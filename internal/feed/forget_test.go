package feed_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/require"

	"github.com/tidegate/tidegate/internal/embednats/natstest"
	"github.com/tidegate/tidegate/internal/feed"
	"github.com/tidegate/tidegate/pkg/events"
)

// counted is what a group has handled.
type counted struct {
	mu    sync.Mutex
	times map[string]int // by position
}

func newCounted() *counted { return &counted{times: map[string]int{}} }

func (c *counted) handle(_ context.Context, b *feed.Batch) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, r := range b.Records {
		c.times[r.Position.String()]++
	}
	return nil
}

// count is how many different records were handled.
func (c *counted) count() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.times)
}

func (c *counted) mustReach(t *testing.T, n int) {
	t.Helper()
	require.Eventually(t, func() bool { return c.count() == n }, patience, 5*time.Millisecond, "%d records are not handled", n)
}

// back puts the feed back to a moment, and its consumers to a later one. Before its
// members can look, others have filled it up again with records of their own.
func (w *world) back(t *testing.T, before *natstest.Moment, p *publisher, refill int) {
	t.Helper()
	w.nats.Stop()
	after := w.nats.Moment(t)
	w.nats.PutBack(t, events.StreamName, before, after)
	if refill > 0 {
		w.nats.Aside(t, func(nc *nats.Conn) {
			js, err := jetstream.New(nc)
			require.NoError(t, err)
			other := &publisher{js: js, last: p.last, n: p.n}
			for i := range refill {
				other.publish(t, fmt.Sprintf("entity-%d", i%40))
			}
			p.n = other.n
		})
		w.nats.PutBack(t, events.StreamName, w.nats.Moment(t), after)
	}
	w.nats.Restart(t)
}

// The feed forgets records that were handled, and others take their numbers: none of
// those is skipped, whoever follows the lanes by then.
func TestForgottenNumbersAreHandledAgain(t *testing.T) {
	for name, refill := range map[string]int{"the feed is shorter": 0, "it is as long": 120, "it is longer": 300} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			p, seen := w.publisher(t), newCounted()
			a := w.memberOf(t, "a", seen.handle, fast(), events.Decode)
			b := w.memberOf(t, "b", seen.handle, fast(), events.Decode)
			for i := range 80 {
				p.publish(t, fmt.Sprintf("entity-%d", i%40))
			}
			seen.mustReach(t, 80)
			before := w.nats.Moment(t)
			for i := range 120 {
				p.publish(t, fmt.Sprintf("entity-%d", i%40))
			}
			seen.mustReach(t, 200)
			w.back(t, before, p, refill)
			for i := range 40 {
				p.publish(t, fmt.Sprintf("entity-%d", i))
			}
			seen.mustReach(t, 240+refill)
			require.Positive(t, a.metric(t, "tidegate_feed_forgotten_total")+b.metric(t, "tidegate_feed_forgotten_total"))
		})
	}
}

// A restart that loses nothing sets nothing back, and is no alarm, also where what was
// handled is dropped by then.
func TestARestartForgetsNothing(t *testing.T) {
	w := newWorld(t)
	p, seen := w.publisher(t), newCounted()
	var rewound atomic.Int64
	_, err := w.nats.Connect(t).Subscribe("$JS.API.CONSUMER.RESET.>", func(m *nats.Msg) {
		if strings.Contains(string(m.Data), "seq") {
			rewound.Add(1)
		}
	})
	require.NoError(t, err)
	m := w.memberOf(t, "a", seen.handle, fast(), events.Decode)
	stream, err := w.js.Stream(t.Context(), events.StreamName)
	require.NoError(t, err)
	for round := range 3 {
		for i := range 50 {
			p.publish(t, fmt.Sprintf("entity-%d", i))
		}
		seen.mustReach(t, 50*(round+1))
		natstest.Drained(t, stream)
		if round == 2 { // what is gone cannot be told from what was forgotten, and costs nothing
			require.Zero(t, rewound.Load())
			require.NoError(t, stream.Purge(t.Context(), jetstream.WithPurgeSubject(events.ChangesAll)))
		}
		w.nats.Restart(t)
	}
	p.publish(t, "last")
	seen.mustReach(t, 151)
	require.Zero(t, m.metric(t, "tidegate_feed_forgotten_total"))
}

// The feed goes back to before it was made, with all that follows it.
func TestAFeedThatIsGoneIsMadeAgain(t *testing.T) {
	nc := natstest.Start(t)
	w := &world{nats: nc}
	before := nc.Moment(t)
	w.js = w.connect(t)
	p, seen := w.publisher(t), newCounted()
	m := w.memberOf(t, "a", seen.handle, fast(), events.Decode)
	p.publish(t, "first")
	seen.mustReach(t, 1)
	w.nats.GoBack(t, events.StreamName, before, nil)
	require.Eventually(t, func() bool { return p.put("second") == nil }, patience, 10*time.Millisecond)
	require.Eventually(t, func() bool { return seen.count() >= 2 }, patience, 5*time.Millisecond)
	require.InDelta(t, 1, m.metric(t, "tidegate_feed_forgotten_total"), 0)
}

// A batch that is under way while NATS is interrupted is not acknowledged: its numbers
// may be those of other records by then. It comes again.
func TestABatchCountsInItsTerm(t *testing.T) {
	w := newWorld(t)
	p := w.publisher(t)
	tuning := fast()
	tuning.AckWait = patience
	handle, batches := holding()
	w.memberOf(t, "a", handle, tuning, events.Decode)
	p.publish(t, "first")
	first := <-batches
	w.nats.Restart(t)
	p.publish(t, "elsewhere")
	(<-batches).release <- nil // so the member has looked
	first.release <- nil
	again := <-batches
	again.release <- nil
}
