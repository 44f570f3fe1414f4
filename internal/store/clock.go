package store

import (
	"errors"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"

	"github.com/tidegate/tidegate/pkg/bucket"
)

// ClockReading is one look at a process's own clock.
type ClockReading struct {
	Wall time.Time     // what the process believes the time is; it may be set at any moment
	Mono time.Duration // since some fixed moment; it never jumps
}

// ClockSource reads a process's own clock. It is safe for concurrent use.
type ClockSource func() ClockReading

const (
	// dateResolution is what the Date header cuts off: it counts whole seconds.
	dateResolution = time.Second
	// boundWindow is how far bounds that are intersected may be apart. Within it
	// even a poor oscillator (100 ppm) drifts by 3 ms only.
	boundWindow = 30 * time.Second
	// maxBoundAge is how long the last bounds count where no reply came since: the
	// same oscillator drifts by 360 ms, which is well below maxCorrection. A node
	// that is asked now and then need not ask the store for the time.
	maxBoundAge = time.Hour
	// maxDivergence is how far wall and monotonic time may part (the clock was
	// set, the machine slept) before the store has to be asked again.
	maxDivergence = 200 * time.Millisecond
	// maxCorrection is how wrong a node's wall clock may be before the node
	// stops writing: each second of skew admits a second of refill too much.
	maxCorrection = 2 * time.Second
)

var (
	// ErrClockUnchecked says that no reply of the store has bounded the time yet, or none
	// since the clock was set.
	ErrClockUnchecked = errors.New("the clock was not yet compared with the store's")
	// ErrClockSkewed says that this machine's clock is too wrong to write by.
	ErrClockSkewed = errors.New("the clock is more than 2 s off the store's: set this machine's clock")
)

// Clock tells the store's time. Each reply of the store bounds how far the
// local clock is ahead of it,
//
//	sent − Date − 1 s  <  local − server  ≤  received − Date
//
// and the intersection of the bounds of 30 s is narrow. Time is
// monotonic time plus a correction from that intersection, zero while zero is
// in it, so that a clock that is set while the node runs moves nothing.
type Clock struct {
	read ClockSource
	told atomic.Int64 // what Mono told last, nanoseconds

	mu     sync.Mutex
	anchor ClockReading                         // guarded by mu: where local time starts; Wall + (Mono − anchor.Mono) is local time
	slots  [boundWindow / time.Second]boundSlot // guarded by mu: a ring by second of monotonic time
}

// boundSlot holds the intersection of the bounds of one second.
type boundSlot struct {
	second    int64 // of monotonic time since the anchor, plus 1; 0 is empty
	low, high time.Duration
}

// NewClock returns a clock that has not been compared with the store's yet.
func NewClock(read ClockSource) *Clock {
	return &Clock{read: read, anchor: read()}
}

// Now is the store's time. The error says that no write may be planned:
// ErrClockUnchecked until the next reply of the store, ErrClockSkewed until the
// clock is right.
func (c *Clock) Now() (bucket.Instant, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	r := c.check()
	correction, ok := c.correction(r.Mono)
	if !ok {
		return bucket.At(r.Wall), ErrClockUnchecked
	}
	now := bucket.At(c.local(r.Mono).Add(-correction))
	if correction.Abs() > maxCorrection {
		return now, ErrClockSkewed
	}
	return now, nil
}

// Time is Now as other packages take it.
func (c *Clock) Time() (time.Time, error) {
	now, err := c.Now()
	return now.Time(), err
}

// Mono is the monotonic time, for ages and deadlines. It never tells the same twice,
// so that of two sights of a shard it is known which was asked for later, however
// coarse the machine's clock is.
func (c *Clock) Mono() time.Duration {
	now := int64(c.read().Mono)
	for {
		last := c.told.Load()
		next := max(now, last+1)
		if c.told.CompareAndSwap(last, next) {
			return time.Duration(next)
		}
	}
}

// Wall is what this machine believes the time is, uncorrected.
func (c *Clock) Wall() time.Time { return c.read().Wall }

// Correction is how far the local clock is known to be ahead of the store's,
// zero while it may be right.
func (c *Clock) Correction() time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	correction, _ := c.correction(c.read().Mono)
	return correction
}

// check starts afresh when wall and monotonic time have parted.
func (c *Clock) check() ClockReading {
	r := c.read()
	if r.Wall.Sub(c.local(r.Mono)).Abs() >= maxDivergence {
		c.anchor = r
		c.slots = [len(c.slots)]boundSlot{}
	}
	return r
}

func (c *Clock) local(mono time.Duration) time.Time {
	return c.anchor.Wall.Add(mono - c.anchor.Mono)
}

// correction clamps zero into the intersection of the known bounds.
func (c *Clock) correction(mono time.Duration) (time.Duration, bool) {
	low, high, known := c.intersection(c.second(mono))
	return min(max(0, low), high), known
}

// intersection is what the newest bounds leave, those of boundWindow together.
func (c *Clock) intersection(second int64) (low, high time.Duration, known bool) {
	newest := int64(0)
	for _, s := range c.slots {
		newest = max(newest, s.second)
	}
	if second-newest > int64(maxBoundAge/time.Second) {
		return 0, 0, false
	}
	for _, s := range c.slots {
		switch {
		case s.second == 0 || s.second <= newest-int64(len(c.slots)):
		case !known:
			low, high, known = s.low, s.high, true
		default:
			low, high = max(low, s.low), min(high, s.high)
		}
	}
	return low, high, known
}

func (c *Clock) second(mono time.Duration) int64 {
	return int64((mono-c.anchor.Mono)/time.Second) + 1
}

// observe takes the bound of one reply.
func (c *Clock) observe(sent, received time.Duration, date time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.check()
	if sent < c.anchor.Mono {
		return // the clock was set while the request was under way
	}
	low, high := c.local(sent).Sub(date)-dateResolution, c.local(received).Sub(date)
	second := c.second(received)
	slot := &c.slots[second%int64(len(c.slots))]
	if slot.second == second {
		slot.low, slot.high = max(slot.low, low), min(slot.high, high)
	} else {
		*slot = boundSlot{second: second, low: low, high: high}
	}
	if l, h, _ := c.intersection(second); l > h {
		c.slots = [len(c.slots)]boundSlot{}
		*slot = boundSlot{second: second, low: low, high: high}
	}
}

// Watch returns an HTTP client that takes a bound from each reply of next.
func (c *Clock) Watch(next aws.HTTPClient) aws.HTTPClient {
	return watchedClient{clock: c, next: next}
}

type watchedClient struct {
	clock *Clock
	next  aws.HTTPClient
}

// Do sends the request and looks at the reply's Date.
func (w watchedClient) Do(req *http.Request) (*http.Response, error) {
	sent := w.clock.read().Mono
	resp, err := w.next.Do(req)
	if err != nil {
		return resp, err
	}
	if date, errDate := http.ParseTime(resp.Header.Get("Date")); errDate == nil {
		w.clock.observe(sent, w.clock.read().Mono, date)
	}
	return resp, nil
}
