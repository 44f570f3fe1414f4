package admission

import (
	"net/http"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tidegate/tidegate/internal/store"
	"github.com/tidegate/tidegate/pkg/api"
)

// A store that says no date is asked once per flight, not without end.
func TestAStoreWithoutDates(t *testing.T) {
	w := newWorld(t)
	var set atomic.Int64 // by how much the machine's clock was set forward
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
	dates.edit(func(h http.Header) { h.Del("Date") })
	set.Store(int64(time.Second))
	before := n.faults.Total().Calls
	e := refused(t, nc, api.VerbAcquire, one, patience)
	require.Equal(t, api.CodeUnavailable, e.Code)
	require.Equal(t, store.ErrClockUnchecked.Error(), e.Message)
	require.EqualValues(t, 1, n.faults.Total().Calls-before)
	dates.edit(nil)
	require.True(t, acquire(t, nc, one).Allowed)
}

// One wrong Date stops the node until the next right one, and it asks for that.
func TestAWrongDatePasses(t *testing.T) {
	w := newWorld(t)
	rpmPerDay(t, w, 10)
	_, dates := w.datedNode(t)
	nc := w.nats.Connect(t)
	acquire(t, nc, one)
	dates.edit(func(h http.Header) { h.Set("Date", "Mon, 02 Jan 2034 15:04:05 GMT") })
	require.True(t, acquire(t, nc, one).Allowed, "it was planned by the time as known before")
	require.Equal(t, store.ErrClockSkewed.Error(), refused(t, nc, api.VerbAcquire, one, patience).Message)
	dates.edit(nil)
	require.True(t, acquire(t, nc, one).Allowed)
}

// dated is a store whose replies' headers a test edits.
type dated struct {
	next http.RoundTripper
	by   atomic.Pointer[func(http.Header)]
}

// datedNode is a node that reaches the store through a dated.
func (w *world) datedNode(t *testing.T) (*node, *dated) {
	t.Helper()
	behind := *w
	d := &dated{next: w.next}
	behind.next = d
	return behind.node(t, Tuning{}), d
}

func (d *dated) edit(by func(http.Header)) {
	if by == nil {
		by = func(http.Header) {}
	}
	d.by.Store(&by)
}

// RoundTrip implements http.RoundTripper.
func (d *dated) RoundTrip(req *http.Request) (*http.Response, error) {
	resp, err := d.next.RoundTrip(req)
	if by := d.by.Load(); by != nil && err == nil {
		(*by)(resp.Header)
	}
	return resp, err
}
