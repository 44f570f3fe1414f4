package bench

import (
	"runtime"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tidegate/tidegate/services/admission"
)

// BenchmarkRememberedBuckets: what a node keeps of 100,000 buckets shall be at
// most 1 KB of memory each: all that is freed when the node goes, while the
// store stays.
func BenchmarkRememberedBuckets(b *testing.B) {
	const buckets = 100_000
	w := newWorld(b)
	with, gone := w.remember(b, buckets)
	for waiting := true; waiting; { // a few timers and goroutines still end
		select {
		case <-gone:
			waiting = false
		case <-time.After(10 * time.Millisecond):
			runtime.GC()
		}
	}
	b.ReportMetric(float64(with-heap())/buckets, "B/bucket")
	b.ReportMetric(0, "ns/op")
}

// remember returns the heap in use when a node has seen so many buckets. The
// node is gone then, but for the garbage collector: that closes gone.
func (w *world) remember(b *testing.B, buckets int64) (inUse uint64, gone <-chan struct{}) {
	b.Helper()
	const callers, turn = 512, 500 * time.Millisecond
	n := w.node(0, admission.Tuning{Remember: buckets << 12})
	clients := w.clients(w.conns())
	var next atomic.Int64
	c := &contender{call: func(caller int) error {
		i := next.Add(1)
		if i > buckets {
			return nil
		}
		_, err := clients[caller%connections].Acquire(b.Context(), entityName(int(i)), resource, consume())
		return err
	}}
	for next.Load() < buckets {
		c.run(b, callers, turn)
	}
	require.InDelta(b, buckets, n.metric("tidegate_admission_remembered_buckets"), 0)
	inUse = heap()
	n.stop()
	return inUse, n.collected
}

// heap is what is reachable, in bytes.
func heap() uint64 {
	runtime.GC()
	runtime.GC() // what the first one only made unreachable
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}
