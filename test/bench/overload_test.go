package bench

import (
	"context"
	"fmt"
	"net/http"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
	"github.com/nats-io/nats.go"
	"github.com/stretchr/testify/require"

	"github.com/tidegate/tidegate/pkg/api"
)

// otherTenant is a namespace beside the default one.
const otherTenant = "other"

const (
	otherRate    = 50 // requests per second
	otherBuckets = 20
	patience     = 2 * time.Second // that callers wait when they do not say
)

// BenchmarkOverload: a tenant asks for new buckets at 2, 4 and 8 times the rate that the
// system sustains, which it measures first; another tenant asks 50 times a second, as it did
// before. The goodput shall be at least 0.8 of the sustained rate, and the other tenant shall
// be admitted at least 99 times of 100, with a p99 of at most 3 times its quiet value.
//
// servers is the number of calls that the store carries out at a time, 5 ms each; at 0 the
// processor is the bottleneck.
func BenchmarkOverload(b *testing.B) {
	for _, servers := range []int{0, 4} {
		b.Run(fmt.Sprintf("servers=%d", servers), func(b *testing.B) { measureOverload(b, servers) })
	}
}

func measureOverload(b *testing.B, servers int) {
	b.Helper()
	const turn, duration = 2 * time.Second, 4 * time.Second
	w := newApartAs(b, assignment{Servers: servers, Fast: true})
	conns := w.conns()
	f := &newBuckets{world: w.world, conns: conns}
	other := &askers{world: w.world, nc: w.connect()}
	other.run(time.Second) // makes its buckets
	quiet := other.run(duration)
	closed := &contender{call: f.ask}
	closed.run(b, 64, turn) // until the node has learned the store's latency
	*closed = contender{call: f.ask}
	f.admitted.Store(0)
	closed.run(b, 64, turn)
	sustained := float64(f.admitted.Load()) / closed.time.Seconds()

	b.ReportMetric(sustained, "sustained/s")
	b.ReportMetric(quiet.p99(), "quiet-p99-ms")
	for _, times := range []int{2, 4, 8} {
		done := make(chan asked)
		go func() { done <- other.run(duration) }()
		good := f.flood(sustained*float64(times), duration)
		loud := <-done
		b.ReportMetric(good/sustained, fmt.Sprintf("goodput-%dx", times))
		b.ReportMetric(loud.admitted(), fmt.Sprintf("other-%dx", times))
		b.ReportMetric(loud.p99()/quiet.p99(), fmt.Sprintf("p99-%dx", times))
	}
	b.ReportMetric(0, "ns/op")
}

// newBuckets asks for a bucket that does not exist, each time for another.
type newBuckets struct {
	*world
	conns []*nats.Conn
	next  atomic.Int64

	admitted atomic.Int64 // of ask
}

func (f *newBuckets) request() []byte {
	return requestOf("new-" + strconv.FormatInt(f.next.Add(1), 10))
}

// ask waits for the answer, whatever it is.
func (f *newBuckets) ask(caller int) error {
	m, err := f.conns[caller%len(f.conns)].Request(api.Subject(api.DefaultNamespace, api.VerbAcquire), f.request(), timeout)
	if err == nil && len(m.Header) == 0 {
		f.admitted.Add(1)
	}
	return err
}

// flood asks at a rate, whatever the answers, and returns the rate of those that were
// admitted in time.
func (f *newBuckets) flood(rate float64, duration time.Duration) float64 {
	total := int(rate * duration.Seconds())
	sent := make([]atomic.Int64, total) // nanoseconds since the start
	var good atomic.Int64
	start := time.Now()
	inboxes := make([]string, len(f.conns))
	for i, nc := range f.conns {
		inboxes[i] = nats.NewInbox() + "."
		sub, err := nc.Subscribe(inboxes[i]+"*", func(m *nats.Msg) {
			n, err := strconv.Atoi(m.Subject[len(inboxes[i]):])
			if err == nil && len(m.Header) == 0 && time.Since(start)-time.Duration(sent[n].Load()) <= patience {
				good.Add(1)
			}
		})
		require.NoError(f.tb, err)
		require.NoError(f.tb, sub.SetPendingLimits(-1, -1))
		defer func() { _ = sub.Unsubscribe() }()
	}
	start = time.Now()
	for n := range total {
		if wait := time.Duration(float64(n)/rate*float64(time.Second)) - time.Since(start); wait > time.Millisecond {
			time.Sleep(wait)
		}
		i := n % len(f.conns)
		sent[n].Store(int64(time.Since(start)))
		require.NoError(f.tb, f.conns[i].PublishRequest(api.Subject(api.DefaultNamespace, api.VerbAcquire), inboxes[i]+strconv.Itoa(n), f.request()))
	}
	took := time.Since(start)
	time.Sleep(patience)
	return float64(good.Load()) / took.Seconds()
}

// askers are the callers of the other tenant: they ask at a constant rate for buckets that
// exist.
type askers struct {
	*world
	nc *nats.Conn
}

// asked is what became of the requests of a tenant.
type asked struct {
	sent, good int
	latencies  *hdrhistogram.Histogram // of those that were admitted, in microseconds
}

func (a asked) admitted() float64 { return float64(a.good) / float64(a.sent) }

func (a asked) p99() float64 { return float64(a.latencies.ValueAtQuantile(99)) / 1000 }

func (a *askers) run(duration time.Duration) asked {
	did := asked{latencies: histogram()}
	var mu sync.Mutex
	var wg sync.WaitGroup
	tick := time.NewTicker(time.Second / otherRate)
	defer tick.Stop()
	for start := time.Now(); time.Since(start) < duration; <-tick.C {
		entity := entityName(did.sent % otherBuckets)
		did.sent++
		wg.Go(func() {
			sent := time.Now()
			m, err := a.nc.Request(api.Subject(otherTenant, api.VerbAcquire), requestOf(entity), patience)
			took := time.Since(sent)
			mu.Lock()
			defer mu.Unlock()
			if err == nil && len(m.Header) == 0 && did.latencies.RecordValue(took.Microseconds()) == nil {
				did.good++
			}
		})
	}
	wg.Wait()
	return did
}

// busy is a store that carries out a number of calls at a time. The others wait, and are
// carried out also if their callers have given up.
type busy struct {
	next    http.RoundTripper
	servers chan struct{}
}

func newBusy(next http.RoundTripper, servers int) busy {
	return busy{next: next, servers: make(chan struct{}, servers)}
}

// RoundTrip implements http.RoundTripper.
func (s busy) RoundTrip(req *http.Request) (*http.Response, error) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		s.servers <- struct{}{}
		_ = exactly(context.Background(), storeLatency) // never cancelled
		<-s.servers
	}()
	select {
	case <-done:
		return s.next.RoundTrip(req)
	case <-req.Context().Done():
		return nil, req.Context().Err()
	}
}
