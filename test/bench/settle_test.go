package bench

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	tidegate "github.com/tidegate/tidegate/pkg/client"
	"github.com/tidegate/tidegate/services/admission"
)

// BenchmarkSettlements: each caller adjusts its own lease of one bucket, in turn up and
// down, beside callers that acquire. It shows what a settlement costs over an acquire.
func BenchmarkSettlements(b *testing.B) {
	for _, callers := range []int{64, 512} {
		b.Run(fmt.Sprintf("callers=%d", callers), func(b *testing.B) { measureSettlements(b, callers) })
	}
}

func measureSettlements(b *testing.B, callers int) {
	b.Helper()
	const rounds, turn = 4, 400 * time.Millisecond
	w := newWorld(b)
	conns := w.conns()
	clients := w.clients(conns)
	n := w.node(storeLatency, admission.Tuning{})
	acquires := &contender{call: func(caller int) error {
		_, err := clients[caller%connections].Acquire(b.Context(), "hot", resource, consume())
		return err
	}}
	leases, calls := make([]*tidegate.Lease, callers), make([]int, callers)
	for i := range leases {
		var err error
		leases[i], err = clients[i%connections].Acquire(b.Context(), "hot", resource, consume())
		require.NoError(b, err)
	}
	adjusts := &contender{call: func(caller int) error {
		delta := int64(1)
		if calls[caller]++; calls[caller]%2 == 0 {
			delta = -1
		}
		return leases[caller].Adjust(b.Context(), tidegate.Deltas{"rpm": delta})
	}}
	before := n.calls.Total()
	compare(b, callers, rounds, turn, acquires, adjusts)
	cost := minus(n.calls.Total(), before)
	b.ReportMetric(acquires.rate(), "acquires/s")
	b.ReportMetric(adjusts.rate(), "adjusts/s")
	b.ReportMetric(adjusts.rate()/acquires.rate(), "adjusts/acquires")
	b.ReportMetric(cost.WriteUnits/float64(acquires.done+adjusts.done), "WCU/operation")
	b.ReportMetric(0, "ns/op")
}
