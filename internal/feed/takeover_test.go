package feed_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/tidegate/tidegate/internal/feed"
	"github.com/tidegate/tidegate/pkg/events"
)

// owners is who handled each lane last.
type owners struct {
	mu sync.Mutex
	of map[int]string
}

func (o *owners) handled(name string, b *feed.Batch) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.of[b.Lane] = name
}

func (o *owners) share(name string) (lanes int) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, owner := range o.of {
		if owner == name {
			lanes++
		}
	}
	return lanes
}

// flow publishes until it is stopped, in all lanes.
func (w *world) flow(t *testing.T, p *publisher) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for i := 0; ctx.Err() == nil; i++ {
			if !assert.NoError(t, p.put(fmt.Sprintf("entity-%d", i%400))) {
				return
			}
		}
	}()
	return func() { cancel(); <-ended }
}

// One member becomes four, and then two, one of them lost to a crash, while
// records flow: the lanes go to whom they belong, and nothing is lost or out of
// order.
func TestLanesMoveUnderLoad(t *testing.T) {
	w := newWorld(t)
	l, p, o := newLedger(), w.publisher(t), &owners{of: map[int]string{}}
	join := func(name string) *member {
		return w.memberOf(t, name, func(_ context.Context, b *feed.Batch) error {
			o.handled(name, b)
			l.apply(name, b)
			return nil
		}, fast(), events.Decode)
	}
	everyLaneIsOf := func(living ...string) {
		t.Helper()
		began := time.Now()
		for _, name := range living {
			want := len(feed.LanesOf(name, living))
			require.Eventually(t, func() bool { return o.share(name) == want }, patience, 10*time.Millisecond, "%s has %d lanes of %d", name, o.share(name), want)
		}
		t.Logf("%d members: every lane is where it belongs after %v", len(living), time.Since(began))
	}
	a := join("a")
	stop := w.flow(t, p)
	everyLaneIsOf("a")
	b, c := join("b"), join("c")
	d := join("d")
	everyLaneIsOf("a", "b", "c", "d")
	a.leave(t)
	c.crash()
	everyLaneIsOf("b", "d")
	stop()
	l.mustHave(t, p.last)
	t.Logf("%d records, %d of them again; by member %v", p.n, l.again, l.by)
	require.Len(t, o.of, events.Lanes)
	b.leave(t)
	d.leave(t)
}

// A member that is lost is missed after MemberTTL, and at the next heartbeat of the
// others its lanes are theirs. By then the server has let go of its pins and of the
// batches that it had: nobody waits for more than five seconds, and then pulls.
func TestLanesMoveWithinFiveSeconds(t *testing.T) {
	d := feed.Defaults()
	noticed := d.MemberTTL + d.Heartbeat
	require.LessOrEqual(t, noticed, 5*time.Second)
	require.LessOrEqual(t, d.PinTTL, noticed)
	require.LessOrEqual(t, d.AckWait, noticed)
	require.Less(t, 2*d.Heartbeat, d.MemberTTL, "one heartbeat may get lost")
}
