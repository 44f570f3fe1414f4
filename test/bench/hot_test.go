package bench

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tidegate/tidegate/internal/loadgen"
	"github.com/tidegate/tidegate/pkg/api"
	tidegate "github.com/tidegate/tidegate/pkg/client"
	"github.com/tidegate/tidegate/services/admission"
)

// BenchmarkHotBucket: everybody wants tokens of one ample bucket. The rate shall
// be at least 0.35 of the echo's through the client and 0.5 raw, with one write
// per store latency at most.
func BenchmarkHotBucket(b *testing.B) {
	const callers, rounds, turn = 2048, 4, 400 * time.Millisecond
	w := newWorld(b)
	n := w.node(storeLatency, admission.Tuning{})
	conns := w.conns()
	clients := w.clients(conns)
	subject, request, reply := sample(b, conns[0], "hot")
	echo := &contender{call: raw(conns, w.echo(len(reply)), request)}
	rawly := &contender{call: raw(conns, subject, request)}
	client := &contender{call: func(caller int) error {
		_, err := clients[caller%connections].Acquire(b.Context(), "hot", resource, consume())
		return err
	}}
	before := n.calls.Total()
	compare(b, callers, rounds, turn, echo, client, rawly)
	cost := minus(n.calls.Total(), before)

	b.ReportMetric(echo.rate(), "echo/s")
	b.ReportMetric(client.rate()/echo.rate(), "client/echo")
	b.ReportMetric(rawly.rate()/echo.rate(), "raw/echo")
	b.ReportMetric(cost.WriteUnits/float64(client.done+rawly.done), "WCU/acquire")
	b.ReportMetric(float64(cost.Calls)*float64(storeLatency)/float64(client.time+rawly.time), "writes/latency")
	b.ReportMetric(0, "ns/op")
}

// BenchmarkHotBucketOpenLoop: callers who do not wait for each other, at half of
// what the closed loop gets. The 99th percentile shall be at most twice the
// store's plus 2 ms.
func BenchmarkHotBucketOpenLoop(b *testing.B) {
	const callers, turn, duration = 2048, time.Second, 2 * time.Second
	w := newWorld(b)
	n := w.node(storeLatency, admission.Tuning{})
	clients := w.clients(w.conns())
	closed := &contender{call: func(caller int) error {
		_, err := clients[caller%connections].Acquire(b.Context(), "hot", resource, consume())
		return err
	}}
	closed.run(b, callers, turn)
	n.store.restart()
	before, busy := n.calls.Total().Calls, n.metric("tidegate_admission_request_seconds", "acquire")
	report := openLoop(b, clients, closed.rate()/2, duration)
	storeP99 := n.store.percentile(99)
	busy = n.metric("tidegate_admission_request_seconds", "acquire") - busy

	b.ReportMetric(closed.rate()/2, "acquires/s")
	b.ReportMetric(report.Acquire.P50, "p50-ms")
	b.ReportMetric(report.Acquire.P99, "p99-ms")
	b.ReportMetric(storeP99, "store-p99-ms")
	b.ReportMetric(1000*busy/float64(report.Requests), "node-mean-ms")
	b.ReportMetric(float64(n.calls.Total().Calls-before)*storeLatency.Seconds()/report.Seconds, "writes/latency")
	b.ReportMetric(1-float64(report.Admitted)/float64(report.Requests), "shed/acquire")
	b.ReportMetric(report.Acquire.P99/(2*storeP99+2), "p99/bound")
	b.ReportMetric(0, "ns/op")
}

// openLoop sends at a rate, all for one bucket. A node that cannot keep up sheds
// with an answer; nothing else may go wrong.
func openLoop(b *testing.B, clients []*tidegate.Client, rate float64, duration time.Duration) loadgen.Report {
	b.Helper()
	load := loadgen.Load{
		Target:  loadgen.Target{Clients: clients, Resource: resource, Entities: []string{"hot"}, Now: time.Now},
		Consume: api.Amounts{{Name: "rpm", Tokens: 1}, {Name: "tpm", Tokens: 500}},
		Callers: 1 << 16, Rate: rate, Duration: duration,
	}
	report, err := load.Run(b.Context())
	require.NoError(b, err)
	require.Equal(b, report.Requests, report.Admitted+report.Errors[string(api.CodeOverloaded)], "%+v", report)
	require.False(b, report.Check.Exceeded())
	return report
}
