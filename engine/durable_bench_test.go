package engine_test

import (
	"runtime"
	"testing"
	"time"

	"github.com/tidegate/tidegate/engine"
	"github.com/tidegate/tidegate/engine/journal"
)

// BenchmarkDurable is the write of an acquire from 64 goroutines, by how safe
// it is before it is answered. What counts is the ratio to fsync never.
func BenchmarkDurable(b *testing.B) {
	const items = 2000
	rate := map[journal.Sync]float64{}
	for _, policy := range []journal.Sync{journal.Never, journal.Sync(100 * time.Millisecond), journal.Always} {
		b.Run("fsync "+policy.String(), func(b *testing.B) {
			d := engine.Durability{Dir: b.TempDir(), Sync: journal.Never}
			to := openBackend(b, newClock(), d)
			seed(b, to.db, items)
			closeEngine(b, to.engine)
			d.Sync = policy
			to = openBackend(b, newClock(), d)
			defer closeEngine(b, to.engine)
			b.ResetTimer()
			spendAll(b, to.db, items)
			b.StopTimer()
			rate[policy] = float64(b.N) / b.Elapsed().Seconds()
			b.ReportMetric(rate[policy]/rate[journal.Never], "of-never")
		})
	}
}

// BenchmarkRestart opens a directory of 200,000 bucket items and 50,000 writes
// behind their snapshot. The stream shows all of it, so the logs from before the
// snapshot are read as well.
func BenchmarkRestart(b *testing.B) {
	const items = 200_000
	d := engine.Durability{Dir: b.TempDir(), Sync: journal.Never}
	from := openBackend(b, newClock(), d)
	seed(b, from.db, items)
	if err := from.engine.Snapshot(); err != nil {
		b.Fatal(err)
	}
	for i := range items / 4 { // about as much log as there may be
		if _, err := from.db.UpdateItem(b.Context(), spend(i, "boot")); err != nil {
			b.Fatal(err)
		}
	}
	closeEngine(b, from.engine)
	from = backend{}
	var used time.Duration
	for n := 1; b.Loop(); n++ {
		before, begin := heap(), cpu(b)
		again := openBackend(b, newClock(), d)
		b.StopTimer()
		used += cpu(b) - begin
		b.ReportMetric(used.Seconds()/float64(n), "cpu-s/op")
		b.ReportMetric(float64(heap()-before)/items, "bytes/item")
		runtime.KeepAlive(again)
		closeEngine(b, again.engine)
		b.StartTimer()
	}
}

func closeEngine(b *testing.B, e *engine.Engine) {
	b.Helper()
	if err := e.Close(); err != nil {
		b.Fatal(err)
	}
}
