package bench

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tidegate/tidegate/services/admission"
)

// BenchmarkLoneCaller: nobody else is there. An acquire shall be one write, no
// read and no index write, and take at most 0.5 ms longer than the same update
// of the store without Tidegate.
func BenchmarkLoneCaller(b *testing.B) {
	const acquires = 300
	w := newWorld(b)
	conns := w.conns()
	n := w.node(storeLatency, admission.Tuning{})
	client, entity := w.clients(conns)[0], entityName(0)
	_, request, reply := sample(b, conns[0], entity) // creates the bucket
	before := n.calls.Total()
	acquire := p50(b, acquires, func(int) error {
		_, err := client.Acquire(b.Context(), entity, resource, consume())
		return err
	})
	cost := minus(n.calls.Total(), before)
	update := p50(b, acquires, w.updates(b, n, 1))
	echo := p50(b, acquires, raw(conns, w.echo(len(reply)), request))

	b.ReportMetric(acquire, "p50-ms")
	b.ReportMetric(acquire-update, "p50-over-store-ms")
	b.ReportMetric(update, "store-p50-ms")
	b.ReportMetric(echo, "echo-p50-ms")
	b.ReportMetric(float64(cost.Calls)/acquires, "calls/acquire")
	b.ReportMetric(cost.WriteUnits/acquires, "WCU/acquire")
	b.ReportMetric(cost.ReadUnits/acquires, "RCU/acquire")
	b.ReportMetric(cost.IndexWriteUnits/acquires, "index-WCU/acquire")
	b.ReportMetric(0, "ns/op")
}

// p50 is the median of calls one after the other, in milliseconds.
func p50(b *testing.B, calls int, do call) float64 {
	b.Helper()
	latencies := histogram()
	for range calls {
		start := time.Now()
		require.NoError(b, do(0))
		require.NoError(b, latencies.RecordValue(time.Since(start).Microseconds()))
	}
	return float64(latencies.ValueAtQuantile(50)) / 1000
}
