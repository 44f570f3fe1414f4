package sim_test

import (
	"context"
	"encoding/binary"
	"fmt"
	"hash/fnv"
	"runtime"
	"runtime/debug"
	"testing"
	"testing/cryptotest"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tidegate/tidegate/internal/jitter"
	"github.com/tidegate/tidegate/test/ledger"
	"github.com/tidegate/tidegate/test/sim/story"
)

// result is how a simulation ended.
type result struct {
	Hash      uint64
	Steps     int
	Simulated time.Duration
	Took      time.Duration
	Failures  []string
	Counts    map[string]int // of disturbances
	Story     *story.Story
	Ops       int
}

// simulate runs a plan.
func simulate(t *testing.T, p *plan, configure func(*world)) (r result) {
	t.Helper()
	// A single processor and no collection in between: goroutines that are ready at the
	// same instant run in the order in which they became ready.
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	defer debug.SetGCPercent(debug.SetGCPercent(-1))
	runtime.GC() // timers of a bubble that pools keep must not
	runtime.GC() // reach another bubble
	cryptotest.SetGlobalRandom(t, p.Seed)
	defer jitter.Replace(func() uint64 {
		h := fnv.New64a()
		var b [16]byte
		binary.LittleEndian.PutUint64(b[:], p.Seed)
		binary.LittleEndian.PutUint64(b[8:], uint64(time.Now().UnixNano())) //nolint:gosec // after 1970
		_, _ = h.Write(b[:])
		return h.Sum64() >> 1
	})()
	started := time.Now()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, p)
		if configure != nil {
			configure(w)
		}
		w.run()
		r = result{
			Hash: w.trace.Sum64(), Steps: w.steps, Simulated: time.Since(w.began), Failures: w.failures, Counts: w.counts, Story: w.story, Ops: w.work.made,
		}
	})
	r.Took = time.Since(started)
	return r
}

// run is the life of a world.
func (w *world) run() {
	w.start()
	require.NoError(w.t, w.work.open())
	for w.steps < w.plan.Steps && len(w.failures) == 0 {
		w.step()
	}
	w.work.stop()
	w.heal()
	if len(w.failures) == 0 {
		w.until(func() bool { return w.work.running == 0 }, nil)
		w.drain()
	}
	w.finish()
	if len(w.failures) == 0 {
		w.account.checkEnd()
	}
}

// drainTime is how long the feed's services have to catch up at the end.
const drainTime = 10 * time.Minute

// drain runs until usage is as the ledger counts it.
func (w *world) drain() {
	if w.plan.Relays == 0 || w.plan.Aggregators == 0 {
		return
	}
	for end := time.Now().Add(drainTime); time.Now().Before(end); {
		for until := time.Now().Add(5 * time.Second); time.Now().Before(until); {
			w.step()
		}
		if w.usageDiffers() == "" {
			return
		}
	}
	w.fail("P7", w.usageDiffers())
}

// usageDiffers compares the usage snapshots with the ledger.
func (w *world) usageDiffers() string {
	got, err := ledger.Snapshots(context.Background(), w.db, w.table)
	require.NoError(w.t, err)
	want := w.usage.Totals()
	for key, total := range want {
		if fmt.Sprint(got[key]) != fmt.Sprint(total) {
			return fmt.Sprintf("the usage of %+v is %v, and the store's writes say %v", key, got[key], total)
		}
	}
	if len(got) != len(want) {
		return fmt.Sprintf("%d snapshots instead of %d", len(got), len(want))
	}
	return ""
}

// finish stops all processes and closes all connections.
func (w *world) finish() {
	for _, p := range w.processes {
		if p.stop != nil {
			p.stop()
		}
	}
	w.until(func() bool {
		for _, p := range w.processes {
			select {
			case <-p.ended:
			default:
				return false
			}
		}
		return true
	}, nil)
	for _, p := range w.work.callers {
		p.nats.Close()
	}
	for range 200 {
		w.step()
	}
}
