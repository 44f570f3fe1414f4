package bench

import (
	"testing"
	"time"

	"github.com/tidegate/tidegate/services/admission"
)

// BenchmarkFleet: eight nodes share one ample bucket, and one is three times as
// far from the store. None shall be starved, and less than 0.05 of the writes
// fail their condition.
func BenchmarkFleet(b *testing.B) { measureFleet(b, newWorld(b)) }

// BenchmarkFleetOverflowing is the same at a bucket that is full again after
// every few acquires. Writes to a full bucket exclude each other: the first
// decides how much has overflowed.
func BenchmarkFleetOverflowing(b *testing.B) {
	measureFleet(b, newWorld(b, overflowing("rpm"), overflowing("tpm")))
}

func measureFleet(b *testing.B, w *world) {
	b.Helper()
	const nodes, callers, turn = 8, 512, 3 * time.Second
	var fleet []*node
	for i := range nodes {
		latency := storeLatency
		if i == 0 {
			latency *= 3
		}
		fleet = append(fleet, w.node(latency, admission.Tuning{}))
	}
	clients := w.clients(w.conns())
	c := &contender{call: func(caller int) error {
		_, err := clients[caller%connections].Acquire(b.Context(), "shared", resource, consume())
		return err
	}}
	c.run(b, callers, turn)

	writes, refused, least := 0.0, 0.0, 1.0
	for _, n := range fleet {
		writes += n.metric("tidegate_admission_store_calls_total") - n.metric("tidegate_admission_store_calls_total", "read")
		refused += n.metric("tidegate_admission_write_failures_total", "refused")
		share := n.metric("tidegate_admission_requests_total", "acquire", "ok") / float64(c.done)
		least = min(least, share*nodes)
	}
	slow := fleet[0].metric("tidegate_admission_requests_total", "acquire", "ok") / float64(c.done)

	b.ReportMetric(c.rate(), "acquires/s")
	b.ReportMetric(least, "least/fair-share")
	b.ReportMetric(slow*nodes, "slow/fair-share")
	b.ReportMetric(refused/writes, "refused/write")
	b.ReportMetric(writes/float64(c.done), "writes/acquire")
	b.ReportMetric(0, "ns/op")
}
