package bench

import (
	"fmt"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
	"github.com/nats-io/nats.go"
	"github.com/stretchr/testify/require"
)

// BenchmarkHotBucket: everybody wants tokens of one ample bucket. The rate shall
// be at least 0.35 of the echo's through the client and 0.5 raw, with one write
// per store latency at most. Where the echo makes more than 410,000 a second, that
// is more than possible for 2,048 callers; 4,000 are nearly all that may wait for one
// bucket of a node.
func BenchmarkHotBucket(b *testing.B) {
	for _, callers := range []int{2048, 4000} {
		b.Run(fmt.Sprintf("callers=%d", callers), func(b *testing.B) { measureHot(b, callers) })
	}
}

func measureHot(b *testing.B, callers int) {
	b.Helper()
	const rounds, turn = 4, 400 * time.Millisecond
	w := newApart(b)
	conns := w.conns()
	clients := w.clients(conns)
	subject, request, reply := sample(b, conns[0], "hot")
	echo := &contender{call: raw(conns, w.echo(len(reply)), request)}
	rawly := &contender{call: raw(conns, subject, request)}
	client := &contender{call: func(caller int) error {
		_, err := clients[caller%connections].Acquire(b.Context(), "hot", resource, consume())
		return err
	}}
	before := w.spent().Count
	compare(b, callers, rounds, turn, echo, client, rawly)
	cost := minus(w.spent().Count, before)

	b.ReportMetric(echo.rate(), "echo/s")
	b.ReportMetric(client.rate()/echo.rate(), "client/echo")
	b.ReportMetric(rawly.rate()/echo.rate(), "raw/echo")
	possible := float64(callers) / (2 * storeLatency.Seconds())
	b.ReportMetric(rawly.rate()/possible, "raw/possible")
	b.ReportMetric(cost.WriteUnits/float64(client.done+rawly.done), "WCU/acquire")
	b.ReportMetric(float64(cost.Calls)*float64(storeLatency)/float64(client.time+rawly.time), "writes/latency")
	b.ReportMetric(0, "ns/op")
}

// BenchmarkHotBucketOpenLoop: callers who do not wait for each other, at half of
// what the closed loop gets. The 99th percentile shall be at most twice the
// store's plus 2 ms.
func BenchmarkHotBucketOpenLoop(b *testing.B) {
	const callers, turn, duration = 2048, time.Second, 2 * time.Second
	w := newApart(b)
	conns := w.conns()
	clients := w.clients(conns)
	closed := &contender{call: func(caller int) error {
		_, err := clients[caller%connections].Acquire(b.Context(), "hot", resource, consume())
		return err
	}}
	closed.run(b, callers, turn)
	w.restart()
	subject, request, _ := sample(b, conns[0], "hot")
	latencies, late := openLoop(b, conns, subject, request, closed.rate()/2, duration)
	storeP99 := w.spent().P99
	p99 := float64(latencies.ValueAtQuantile(99)) / 1000

	b.ReportMetric(closed.rate()/2, "acquires/s")
	b.ReportMetric(float64(latencies.ValueAtQuantile(50))/1000, "p50-ms")
	b.ReportMetric(p99, "p99-ms")
	b.ReportMetric(float64(late.ValueAtQuantile(99))/1000, "sent-late-p99-ms")
	b.ReportMetric(storeP99, "store-p99-ms")
	b.ReportMetric(p99/(2*storeP99+2), "p99/bound")
	b.ReportMetric(0, "ns/op")
}

// openLoop sends requests as they become due, whatever happened to those before,
// and takes the time from sending to reply, in microseconds. It has no goroutine
// per request, so that it does not measure itself; how much later than due it
// sends, because it sleeps and shares the processor, is late.
func openLoop(b *testing.B, conns []*nats.Conn, subject string, request []byte, rate float64, duration time.Duration) (latencies, late *hdrhistogram.Histogram) {
	b.Helper()
	total := int(rate * duration.Seconds())
	interval := time.Duration(float64(time.Second) / rate)
	var mu sync.Mutex
	latencies, late = histogram(), histogram()
	start := time.Now()
	sent := make([]time.Duration, total) // each is written before its request is sent
	inboxes := make([]string, len(conns))
	var replies sync.WaitGroup
	replies.Add(total)
	for i, nc := range conns {
		inboxes[i] = nats.NewInbox() + "."
		sub, err := nc.Subscribe(inboxes[i]+"*", func(m *nats.Msg) {
			defer replies.Done()
			n, errID := strconv.Atoi(m.Subject[len(inboxes[i]):])
			took := time.Since(start) - sent[n]
			mu.Lock()
			defer mu.Unlock()
			if errID != nil || len(m.Header) > 0 || latencies.RecordValue(took.Microseconds()) != nil {
				b.Errorf("answered with %v %s", m.Header, m.Data)
			}
		})
		require.NoError(b, err)
		require.NoError(b, nc.Flush())
		b.Cleanup(func() { _ = sub.Unsubscribe() })
	}
	start = time.Now()
	for n := range total {
		if wait := time.Duration(n)*interval - time.Since(start); wait > 0 {
			time.Sleep(max(wait, time.Millisecond/4))
		}
		i := n % len(conns)
		sent[n] = time.Since(start)
		require.NoError(b, late.RecordValue((sent[n] - time.Duration(n)*interval).Microseconds()))
		require.NoError(b, conns[i].PublishRequest(subject, inboxes[i]+strconv.Itoa(n), request))
	}
	replies.Wait()
	return latencies, late
}
