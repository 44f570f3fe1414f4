package aggregator

import (
	"context"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"

	"github.com/tidegate/tidegate/internal/table/tabletest"
	"github.com/tidegate/tidegate/pkg/events"
)

// lane is a part of the feed as it comes to its consumers: in order, from what is
// not acknowledged yet, with other borders each time.
type lane struct {
	mu      sync.Mutex
	records []*events.Event
	done    int // acknowledged; guarded by mu
}

func (l *lane) pull(most int) (from int, records []*events.Event) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.done, l.records[l.done:min(len(l.records), l.done+most)]
}

// acknowledge is what a member does that has counted a batch. Another may have
// got further meanwhile.
func (l *lane) acknowledge(until int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.done = max(l.done, until)
}

// member consumes all lanes, in an order of its own, dies now and then before it
// acknowledges, and is not alone.
func member(ctx context.Context, c *counter, lanes []*lane, seed uint64) {
	random := rand.New(rand.NewPCG(seed, 1))
	for open := slices.Clone(lanes); len(open) > 0; {
		i := random.IntN(len(open))
		from, records := open[i].pull(1 + random.IntN(40))
		if len(records) == 0 {
			open = slices.Delete(open, i, i+1)
			continue
		}
		call, cancel := context.WithCancel(ctx)
		if random.IntN(8) == 0 { // it is killed at some step of this batch
			cancel()
		}
		err := c.apply(call, batch(records...))
		cancel()
		if err != nil || random.IntN(6) == 0 { // or before it acknowledges
			continue
		}
		open[i].acknowledge(from + len(records))
	}
}

// P7: whatever befalls the store, whoever dies, and however often a record is
// given to whom: every snapshot equals the change of the counters.
func TestUsageIsExact(t *testing.T) {
	seeds := make([]uint64, 12)
	for i := range seeds {
		seeds[i] = rand.Uint64()
	}
	for _, seed := range seeds {
		t.Run("", func(t *testing.T) {
			t.Logf("seed %d", seed)
			usageIsExact(t, seed)
		})
	}
}

func usageIsExact(t *testing.T, seed uint64) {
	t.Helper()
	h := newHistory(seed)
	for range 600 {
		h.step(6)
	}
	lanes := make([]*lane, 8)
	for i := range lanes {
		lanes[i] = &lane{}
	}
	for i, e := range h.records {
		l := lanes[events.Lane(e.Key)%len(lanes)]
		l.records = append(l.records, e)
		if i%10 == 0 { // published twice
			l.records = append(l.records, e)
		}
	}
	w := newWorld(t)
	w.Faults.Match(tabletest.Mishaps(rand.New(rand.NewPCG(seed, 2))))
	var all sync.WaitGroup
	for n := range 4 {
		c := w.counter(t)
		c.store.timeout /= 10 // some replies come too late
		all.Go(func() { member(t.Context(), c, lanes, seed+uint64(n)) })
	}
	all.Wait()
	w.Faults.Wait()
	h.mustBeCounted(t, w)
}
