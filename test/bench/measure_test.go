package bench

import (
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
	tidegate "github.com/tidegate/tidegate/pkg/client"
)

// call is one request of a caller; it fails on an answer that is not the
// expected one.
type call func(caller int) error

// contender is one of the things that are compared, and what it has done.
type contender struct {
	call call
	done int64
	time time.Duration
}

func (c *contender) rate() float64 { return float64(c.done) / c.time.Seconds() }

// compare lets the contenders take turns, rounds times, with so many callers
// who each wait for their answer.
func compare(tb testing.TB, callers, rounds int, turn time.Duration, contenders ...*contender) {
	tb.Helper()
	for range rounds {
		for _, c := range contenders {
			c.run(tb, callers, turn)
		}
	}
}

func (c *contender) run(tb testing.TB, callers int, turn time.Duration) {
	tb.Helper()
	var wg sync.WaitGroup
	var done atomic.Int64
	var failure atomic.Pointer[error]
	start := time.Now()
	for caller := range callers {
		wg.Go(func() {
			n := int64(0)
			for time.Since(start) < turn && failure.Load() == nil {
				if err := c.call(caller); err != nil {
					failure.Store(&err)
					break
				}
				n++
			}
			done.Add(n)
		})
	}
	wg.Wait()
	c.time += time.Since(start)
	c.done += done.Load()
	if err := failure.Load(); err != nil {
		require.NoError(tb, *err)
	}
}

// timeout is far above any latency here: no request may fail.
const timeout = 10 * time.Second

// raw sends the same bytes each time and does not look at the reply.
func raw(conns []*nats.Conn, subject string, payload []byte) call {
	return func(caller int) error {
		_, err := conns[caller%len(conns)].Request(subject, payload, timeout)
		return err
	}
}

// sample is one exchange with the system, to size the echo by.
func sample(tb testing.TB, nc *nats.Conn, entity string) (subject string, request, reply []byte) {
	tb.Helper()
	subject = api.Subject(api.DefaultNamespace, api.VerbAcquire)
	request = requestOf(entity)
	m, err := nc.Request(subject, request, timeout)
	require.NoError(tb, err)
	require.Empty(tb, m.Header, "refused: %s", m.Data)
	return subject, request, m.Data
}

func requestOf(entity string) []byte {
	q := api.AcquireRequest{Entity: entity, Resource: resource, Consume: api.Amounts{{Name: "rpm", Tokens: 1}, {Name: "tpm", Tokens: 500}}}
	return q.AppendJSON(nil)
}

func consume() tidegate.Consume { return tidegate.Consume{"rpm": 1, "tpm": 500} }

func entityName(i int) string { return "api-key-" + strconv.Itoa(i) }

// timed measures how long the store's answers take.
type timed struct {
	next http.RoundTripper

	mu        sync.Mutex
	durations *hdrhistogram.Histogram // guarded by mu; microseconds
}

func newTimed(next http.RoundTripper) *timed { return &timed{next: next, durations: histogram()} }

// Do sends the request and takes its time.
func (t *timed) Do(req *http.Request) (*http.Response, error) {
	start := time.Now()
	resp, err := t.next.RoundTrip(req)
	took := time.Since(start)
	t.mu.Lock()
	defer t.mu.Unlock()
	return resp, errorOr(err, t.durations.RecordValue(took.Microseconds()))
}

func errorOr(err, otherwise error) error {
	if err != nil {
		return err
	}
	return otherwise
}

// restart forgets what was measured.
func (t *timed) restart() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.durations.Reset()
}

// percentile is in milliseconds.
func (t *timed) percentile(p float64) float64 {
	t.mu.Lock()
	defer t.mu.Unlock()
	return float64(t.durations.ValueAtQuantile(p)) / 1000
}

func histogram() *hdrhistogram.Histogram { return hdrhistogram.New(1, timeout.Microseconds(), 3) }
