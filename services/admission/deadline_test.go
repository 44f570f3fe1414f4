package admission

import (
	"context"
	"net"
	"net/http"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/tidegate/tidegate/internal/store"
	"github.com/tidegate/tidegate/pkg/api"
	tidegate "github.com/tidegate/tidegate/pkg/client"
)

// standstill is a way to NATS that stops delivering until it is told to go on, as a
// process that gets no processor time does.
type standstill struct {
	mu   sync.Mutex
	open chan struct{} // guarded by mu; closed while messages are delivered
}

func newStandstill() *standstill {
	s := &standstill{open: make(chan struct{})}
	close(s.open)
	return s
}

func (s *standstill) Dial(network, address string) (net.Conn, error) {
	conn, err := (&net.Dialer{}).DialContext(context.Background(), network, address) // nats.go gives none
	return &heldConn{Conn: conn, by: s}, err
}

func (s *standstill) begin() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.open = make(chan struct{})
}

func (s *standstill) end() {
	s.mu.Lock()
	defer s.mu.Unlock()
	close(s.open)
}

type heldConn struct {
	net.Conn
	by *standstill
}

func (c *heldConn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	c.by.mu.Lock()
	open := c.by.open
	c.by.mu.Unlock()
	<-open
	return n, err
}

// announced is what requests announce.
type announced struct {
	nc     *nats.Conn
	sub    *nats.Subscription
	count  atomic.Int64
	latest atomic.Int64 // deadline
}

func (w *world) watchDeadlines(t *testing.T) *announced {
	t.Helper()
	d := &announced{nc: w.nats.Connect(t)}
	var err error
	d.sub, err = d.nc.Subscribe(api.SubjectAll, func(m *nats.Msg) {
		until, _, _ := api.ParseDeadline(m.Header.Get(api.HeaderDeadline)) // 0 for none
		d.latest.Store(max(d.latest.Load(), until))
		d.count.Add(1)
	})
	require.NoError(t, err)
	require.NoError(t, d.nc.Flush())
	return d
}

// from returns when all that a connection has sent is counted.
func (d *announced) from(t *testing.T, nc *nats.Conn) {
	t.Helper()
	require.NoError(t, nc.Flush())
	require.NoError(t, d.nc.Flush())
	require.Eventually(t, func() bool {
		delivered, err := d.sub.Delivered()
		return err == nil && delivered == d.count.Load()
	}, patience, time.Millisecond)
	waiting, _, err := d.sub.Pending()
	require.NoError(t, err)
	require.Zero(t, waiting)
}

// A node stands still for longer than its callers wait. None of what they asked for
// is done afterwards: not an acquire, an adjust or a release.
func TestAStandstillSpendsNothing(t *testing.T) {
	w := newWorld(t)
	rpmPerDay(t, w, 100_000)
	still := newStandstill()
	w.reach = []nats.Option{nats.SetCustomDialer(still)}
	n := w.node(t, Tuning{})
	nc := w.nats.Connect(t)
	client, err := tidegate.New(nc)
	require.NoError(t, err)
	hold := func(tokens int64) *tidegate.Lease {
		l, err := client.Acquire(t.Context(), "api-key-123", "gpt-4", tidegate.Consume{"rpm": tokens})
		require.NoError(t, err)
		return l
	}
	adjusted, released := hold(5), hold(7)
	before := w.item(t, "api-key-123", "gpt-4")
	asked := w.watchDeadlines(t)

	still.begin()
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	var wg sync.WaitGroup
	gone := func(ask func() error) {
		wg.Go(func() { assert.ErrorIs(t, ask(), context.DeadlineExceeded) })
	}
	gone(func() error { return adjusted.Adjust(ctx, tidegate.Deltas{"rpm": 3}) })
	gone(func() error { return released.Release(ctx) })
	for range 1000 {
		gone(func() error {
			_, err := client.Acquire(ctx, "api-key-123", "gpt-4", tidegate.Consume{"rpm": 1})
			return err
		})
	}
	wg.Wait()
	asked.from(t, nc)
	require.Eventually(t, func() bool {
		now, err := n.clock.Now()
		return err == nil && now.Time().UnixMilli() >= asked.latest.Load()
	}, patience, time.Millisecond, "the last of them has given up")
	given := asked.count.Load()
	still.end()

	acquire(t, w.nats.Connect(t), `{"entity":"behind-them","resource":"gpt-4","consume":{"rpm":1}}`)
	require.NoError(t, n.stop())
	after := w.item(t, "api-key-123", "gpt-4")
	require.Equal(t, before.Acquires, after.Acquires)
	require.Equal(t, before.Find("rpm").Consumed, after.Find("rpm").Consumed)
	late := 0.0
	for _, verb := range []api.Verb{api.VerbAcquire, api.VerbAdjust, api.VerbRelease} {
		late += testutil.ToFloat64(n.Service.metrics.requests.WithLabelValues(string(verb), string(api.CodeDeadlineExceeded)))
	}
	require.Positive(t, given)
	require.InDelta(t, float64(given), late, 0, "each was refused by name")
}

// ahead is a node that knows the store's time, and a deadline relative to it.
func (n *node) ahead(t *testing.T, by time.Duration) string {
	t.Helper()
	now, err := n.clock.Now()
	require.NoError(t, err)
	return api.FormatTime(now.Time().Add(by))
}

func TestDeadlinesOnTheWire(t *testing.T) {
	w := newWorld(t)
	rpmPerDay(t, w, 10)
	n := w.node(t, Tuning{})
	nc := w.nats.Connect(t)
	require.True(t, acquire(t, nc, one).Allowed) // the node knows the store's time
	for name, c := range map[string]struct {
		deadline, timeout string
		code              api.Code // empty: admitted
	}{
		"none":                         {"", "", ""},
		"ahead":                        {n.ahead(t, patience), "", ""},
		"far ahead":                    {n.ahead(t, 100*365*24*time.Hour), "", ""},
		"beyond all time":              {"99999999999999999999999999", "", ""},
		"now":                          {n.ahead(t, 0), "", api.CodeDeadlineExceeded},
		"a second ago":                 {n.ahead(t, -time.Second), "60000", api.CodeDeadlineExceeded},
		"a year ago":                   {n.ahead(t, -365*24*time.Hour), "", api.CodeDeadlineExceeded},
		"before all limits":            {"1", "", api.CodeDeadlineExceeded},
		"0":                            {"0", "", api.CodeDeadlineExceeded},
		"seconds for milliseconds":     {"1763712000", "", api.CodeDeadlineExceeded},
		"malformed":                    {"soon", "", api.CodeInvalidTimeout},
		"negative":                     {"-1", "", api.CodeInvalidTimeout},
		"a fraction":                   {"1763712000.5", "", api.CodeInvalidTimeout},
		"a good one, a bad timeout":    {n.ahead(t, patience), "0", api.CodeInvalidTimeout},
		"a bad one beats good timeout": {"x", "60000", api.CodeInvalidTimeout},
	} {
		t.Run(name, func(t *testing.T) {
			m := natsMsg(api.VerbAcquire, `{"entity":"e","resource":"gpt-4","consume":{"rpm":0}}`)
			for header, value := range map[string]string{api.HeaderDeadline: c.deadline, api.HeaderTimeout: c.timeout} {
				if value != "" {
					m.Header.Set(header, value)
				}
			}
			reply, err := nc.RequestMsg(m, patience)
			require.NoError(t, err)
			if c.code == "" {
				require.Empty(t, reply.Header.Get(api.HeaderErrorCode), string(reply.Data))
			} else {
				require.Equal(t, c.code, api.DecodeError(reply.Data).Code)
			}
			if c.deadline == "" && c.timeout == "" {
				require.Empty(t, reply.Header, "who does not ask is not told")
				return
			}
			told, err := strconv.ParseInt(reply.Header.Get(api.HeaderTime), 10, 64)
			require.NoError(t, err)
			now, err := n.clock.Now()
			require.NoError(t, err)
			require.InDelta(t, now.Time().UnixMilli(), told, float64(patience.Milliseconds()))
		})
	}
}

// With a timeout and a deadline, the earlier end holds; a deadline alone holds a
// request for no longer than the longest timeout.
func TestADeadlineIsBoundedAsATimeoutIs(t *testing.T) {
	w := newWorld(t)
	rpmPerDay(t, w, 10)
	n := w.node(t, Tuning{})
	acquire(t, w.nats.Connect(t), one)
	for name, c := range map[string]struct {
		deadline, timeout string
		least, most       time.Duration
	}{
		"the timeout is earlier":  {n.ahead(t, 24*time.Hour), "1500", 1500 * time.Millisecond, 1500 * time.Millisecond},
		"the deadline is earlier": {n.ahead(t, 30*time.Second), "60000", 0, 30 * time.Second},
		"no timeout":              {n.ahead(t, 24*time.Hour), "", api.MaxTimeout, api.MaxTimeout},
		"no deadline":             {"", "", api.DefaultTimeout, api.DefaultTimeout},
	} {
		t.Run(name, func(t *testing.T) {
			r := &request{service: n.Service, received: n.clock.Mono()}
			h := nats.Header{api.HeaderDeadline: {c.deadline}, api.HeaderTimeout: {c.timeout}}
			require.NoError(t, r.waitsUntil(h))
			require.GreaterOrEqual(t, r.deadline-r.received, c.least)
			require.LessOrEqual(t, r.deadline-r.received, c.most)
		})
	}
}

// A node whose clock was set, as after its machine slept, does not know the time when
// the request arrives. It does before it spends.
func TestADeadlineCountsOnceTheTimeIsKnown(t *testing.T) {
	for _, shards := range []int{1, 4} {
		t.Run(strconv.Itoa(shards), func(t *testing.T) {
			w := newWorld(t)
			var set atomic.Int64 // by how much the clocks went on while the machine slept
			w.clock = func() store.ClockSource {
				source := systemClock()
				return func() store.ClockReading {
					r := source()
					r.Wall = r.Wall.Add(time.Duration(set.Load()))
					return r
				}
			}
			rpmPerDay(t, w, 10)
			n, dates := w.datedNode(t)
			nc := w.nats.Connect(t)
			acquire(t, nc, one)
			w.divide(t, "api-key-123", shards)
			acquire(t, nc, one)                              // which learns of them
			m := natsMsg(api.VerbAcquire, spendOf("rpm", 5)) // more than one shard of four holds
			m.Header.Set(api.HeaderDeadline, n.ahead(t, time.Minute))
			dates.edit(func(h http.Header) {
				h.Set("Date", time.Now().Add(time.Hour).UTC().Format(http.TimeFormat))
			})
			set.Store(int64(time.Hour))
			_, err := n.clock.Now()
			require.ErrorIs(t, err, store.ErrClockUnchecked)
			reply, err := nc.RequestMsg(m, patience)
			require.NoError(t, err)
			require.Equal(t, api.CodeDeadlineExceeded, api.DecodeError(reply.Data).Code, string(reply.Data))
			spent := int64(0)
			for _, b := range w.tree(t, "api-key-123") {
				spent += b.Acquires
			}
			require.EqualValues(t, 2, spent)
		})
	}
}
