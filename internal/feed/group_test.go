package feed_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tidegate/tidegate/internal/feed"
	"github.com/tidegate/tidegate/pkg/events"
	"github.com/tidegate/tidegate/pkg/keys"
)

// ledger is what the handlers of all members apply to: the acquires of each
// entity, under the condition that nothing is left out.
type ledger struct {
	mu    sync.Mutex
	last  map[string]int64
	gaps  []string
	again int
	by    map[string]int
}

func newLedger() *ledger { return &ledger{last: map[string]int64{}, by: map[string]int{}} }

func (l *ledger) apply(member string, b *feed.Batch) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, r := range b.Records {
		entity, n := r.Key.(keys.Bucket).Entity, r.Bucket.New.Acquires
		switch last := l.last[entity]; {
		case n == last+1:
			l.last[entity] = n
			l.by[member]++
		case n <= last:
			l.again++
		default:
			l.gaps = append(l.gaps, fmt.Sprintf("%s: %d after %d", entity, n, last))
		}
	}
}

func (l *ledger) has(want map[string]int64) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	for entity, n := range want {
		if l.last[entity] != n {
			return false
		}
	}
	return true
}

func (l *ledger) mustHave(t *testing.T, want map[string]int64) {
	t.Helper()
	require.Eventually(t, func() bool { return l.has(want) }, patience, 10*time.Millisecond, "not everything arrives")
	l.mu.Lock()
	defer l.mu.Unlock()
	require.Empty(t, l.gaps, "records passed others of their lane")
}

// Members come, leave and crash at random, handlers fail and panic: every
// record is handled, in the order of its lane.
func TestMembersShareTheLanesWhoeverComesAndGoes(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	w := newWorld(t)
	l, p := newLedger(), w.publisher(t)
	handlerOf := func(name string) func(context.Context, *feed.Batch) error {
		own := rand.New(rand.NewPCG(random.Uint64(), 1))
		var mu sync.Mutex
		roll := func(n int) int {
			mu.Lock()
			defer mu.Unlock()
			return own.IntN(n)
		}
		return func(_ context.Context, b *feed.Batch) error {
			switch roll(40) {
			case 0:
				return errors.New("the store is down")
			case 1:
				panic("a bug")
			case 2:
				l.apply(name, b)
				return errors.New("applied, but failed afterwards")
			}
			l.apply(name, b)
			return nil
		}
	}
	running := map[string]*member{}
	join := func(n int) {
		name := fmt.Sprintf("member-%d", n)
		running[name] = w.memberOf(t, name, handlerOf(name), fast(), events.Decode)
	}
	join(0)
	for n := 1; n <= 8; n++ {
		for range 400 {
			p.publish(t, fmt.Sprintf("entity-%d", random.IntN(100)))
		}
		if len(running) < 4 {
			join(n)
		}
		for name, m := range running {
			if len(running) == 1 {
				break
			}
			switch random.IntN(5) {
			case 0:
				m.leave(t)
				delete(running, name)
			case 1:
				m.crash()
				delete(running, name)
			}
		}
	}
	l.mustHave(t, p.last)
	t.Logf("%d records, %d of them again; by member %v", p.n, l.again, l.by)
	for _, m := range running {
		m.leave(t)
	}
}

// The feed is not lost when NATS restarts, and members find back by themselves.
func TestTheServerRestarts(t *testing.T) {
	w := newWorld(t)
	l, p := newLedger(), w.publisher(t)
	w.memberOf(t, "a", func(_ context.Context, b *feed.Batch) error { l.apply("a", b); return nil }, fast(), events.Decode)
	for i := range 200 {
		p.publish(t, fmt.Sprintf("entity-%d", i%20))
	}
	w.nats.Restart(t)
	p.js = w.connect(t)
	for i := range 200 {
		p.publish(t, fmt.Sprintf("entity-%d", i%20))
	}
	l.mustHave(t, p.last)
}

func TestAnotherNumberOfLanesIsRefused(t *testing.T) {
	w := newWorld(t)
	stream, err := w.js.Stream(t.Context(), events.StreamName)
	require.NoError(t, err)
	cfg := stream.CachedInfo().Config
	cfg.Metadata[events.LanesMetadata] = "32"
	_, err = w.js.UpdateStream(t.Context(), cfg)
	require.NoError(t, err)
	_, err = feed.EnsureFeed(t.Context(), w.js, feed.Retention{})
	require.ErrorContains(t, err, `"32" lanes`)
}

// How much of the feed is kept is for the relays to say: a service that comes with
// other settings, or none, leaves it as it is. The first to come makes it.
func TestAServiceThatFollowsLeavesTheFeedAsItIs(t *testing.T) {
	w := newWorld(t)
	ctx := t.Context()
	require.NoError(t, w.js.DeleteStream(ctx, events.StreamName))
	kept := func(r feed.Retention) feed.Retention {
		t.Helper()
		stream, err := feed.FollowFeed(ctx, w.js, r)
		require.NoError(t, err)
		_, err = feed.NewDeadLetters(w.js).Count(ctx, "test")
		require.NoError(t, err)
		cfg := stream.CachedInfo().Config
		return feed.Retention{Replicas: cfg.Replicas, MaxAge: cfg.MaxAge, MaxBytes: cfg.MaxBytes}
	}
	first := feed.Retention{Replicas: 1, MaxAge: 2 * time.Hour, MaxBytes: 2 << 20}
	require.Equal(t, first, kept(first))
	require.Equal(t, first, kept(feed.Retention{}))
	relays := feed.Retention{Replicas: 1, MaxAge: 3 * time.Hour, MaxBytes: 3 << 20}
	_, err := feed.EnsureFeed(ctx, w.js, relays)
	require.NoError(t, err)
	require.NoError(t, w.js.DeleteStream(ctx, "TIDEGATE_DLQ"))
	require.Equal(t, relays, kept(first))

	stream, err := w.js.Stream(ctx, events.StreamName)
	require.NoError(t, err)
	cfg := stream.CachedInfo().Config
	cfg.Metadata[events.LanesMetadata] = "32"
	_, err = w.js.UpdateStream(ctx, cfg)
	require.NoError(t, err)
	_, err = feed.FollowFeed(ctx, w.js, relays)
	require.ErrorContains(t, err, `"32" lanes`)
}
