package bench

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/stretchr/testify/require"

	"github.com/tidegate/tidegate/pkg/api"
	tidegate "github.com/tidegate/tidegate/pkg/client"
)

// BenchmarkStatusFlood: acquires of a tenant at a fixed pace, alone and while another
// tenant sends 400 requests per second for the status of an entity with 100 buckets. The
// flood shall cost the acquires nothing: answered is the ratio of acquires that were
// answered, p50 and p99 are the ratios of their latencies.
func BenchmarkStatusFlood(b *testing.B) {
	const (
		buckets, pace = 100, 400
		turn          = 3 * time.Second
	)
	a := newApart(b)
	callers := a.connect()
	client, err := tidegate.New(callers)
	require.NoError(b, err)
	_, err = client.Operator().CreateNamespace(b.Context(), "flood")
	require.NoError(b, err)
	other, err := tidegate.New(callers, tidegate.WithNamespace("flood"))
	require.NoError(b, err)
	_, err = other.Admin().SetLimits(b.Context(), api.LimitsSetRequest{LimitsTarget: api.LimitsTarget{System: true}, Limits: []api.Limit{ample("rpm"), ample("tpm")}})
	require.NoError(b, err)
	for i := range buckets {
		_, err := other.Acquire(b.Context(), "e", fmt.Sprintf("model-%d", i), consume())
		require.NoError(b, err)
	}

	quiet := paced(b, client, turn)
	flood := a.connect()
	over := make(chan struct{})
	var sending sync.WaitGroup
	sending.Go(func() {
		tick := time.NewTicker(time.Second / pace)
		defer tick.Stop()
		for {
			select {
			case <-over:
				return
			case <-tick.C:
				_ = flood.PublishRequest(api.Subject("flood", api.VerbStatus), nats.NewInbox(), []byte(`{"entity":"e"}`)) // a lost request floods less
			}
		}
	})
	busy := paced(b, client, turn)
	close(over)
	sending.Wait()
	b.ReportMetric(float64(busy.answered)/float64(quiet.answered), "answered")
	b.ReportMetric(busy.p50/quiet.p50, "p50")
	b.ReportMetric(busy.p99/quiet.p99, "p99")
	b.ReportMetric(0, "ns/op")
}

// pacedResult holds how paced acquires went; latencies in microseconds.
type pacedResult struct {
	answered int64
	p50, p99 float64
}

// paced acquires 100 times per second, whether or not the last acquire was answered.
func paced(b *testing.B, client *tidegate.Client, turn time.Duration) (r pacedResult) {
	b.Helper()
	var mu sync.Mutex
	var waiting sync.WaitGroup
	took := histogram()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for start, n := time.Now(), 0; time.Since(start) < turn; n++ {
		<-tick.C
		waiting.Go(func() {
			began := time.Now()
			_, err := client.Acquire(b.Context(), entityName(n), resource, consume())
			mu.Lock()
			defer mu.Unlock()
			if err == nil && took.RecordValue(time.Since(began).Microseconds()) == nil {
				r.answered++
			}
		})
	}
	waiting.Wait()
	r.p50, r.p99 = float64(took.ValueAtQuantile(50)), float64(took.ValueAtQuantile(99))
	return r
}
