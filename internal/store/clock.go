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

// ClockReading is a reading of a process's own clock.
type ClockReading struct {
	Wall time.Time     // what the process believes the time is; it may be set at any moment
	Mono time.Duration // since some fixed moment; it never jumps
}

// ClockSource reads a process's own clock. It is safe for concurrent use.
type ClockSource func() ClockReading

const (
	// dateResolution is the precision of the Date header, which counts whole
	// seconds.
	dateResolution = time.Second
	// boundWindow limits the age difference of bounds that are intersected. Within
	// it even a poor oscillator (100 ppm) drifts by only 3 ms.
	boundWindow = 30 * time.Second
	// maxBoundAge is the time for which the last bounds hold without a new reply:
	// the same oscillator drifts by 360 ms, far below maxCorrection. An idle node
	// therefore need not ask the store for the time.
	maxBoundAge = time.Hour
	// maxDivergence bounds the difference of wall time and monotonic time. Beyond
	// it (the clock was set, the machine slept) the store has to be asked again.
	maxDivergence = 200 * time.Millisecond
	// maxCorrection bounds the error of a node's wall clock at which the node still
	// writes: each second of skew grants a second of refill too much.
	maxCorrection = 2 * time.Second
)

var (
	// ErrClockUnchecked says that no reply of the store has bounded the time yet,
	// or since the clock was set.
	ErrClockUnchecked = errors.New("the clock was not yet compared with the store's")
	// ErrClockSkewed says that this machine's clock is too wrong for writes.
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

// boundSlot holds the intersection of the bounds of a second.
type boundSlot struct {
	second    int64 // of monotonic time since the anchor, plus 1; 0 is empty
	low, high time.Duration
}

// NewClock returns a clock that no reply of the store has bounded yet.
func NewClock(read ClockSource) *Clock {
	return &Clock{read: read, anchor: read()}
}

// Now returns the store's time. With an error no write may be planned:
// ErrClockUnchecked until the next reply of the store, ErrClockSkewed until the
// machine's clock is right.
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

// Time is Now with the types of package time.
func (c *Clock) Time() (time.Time, error) {
	now, err := c.Now()
	return now.Time(), err
}

// Mono returns the monotonic time, for ages and deadlines. Every value is greater
// than the one before, so that snapshots of a shard can be ordered by the time of
// their requests even if the machine's clock is coarse.
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

// Wall returns the machine's wall time, uncorrected.
func (c *Clock) Wall() time.Time { return c.read().Wall }

// Correction returns by how much the local clock is certainly ahead of the store's;
// zero if it may be right.
func (c *Clock) Correction() time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	correction, _ := c.correction(c.read().Mono)
	return correction
}

// check resets the bounds if wall time and monotonic time have diverged.
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

// correction returns the value of the intersection of the known bounds that is
// nearest to zero.
func (c *Clock) correction(mono time.Duration) (time.Duration, bool) {
	low, high, known := c.intersection(c.second(mono))
	return min(max(0, low), high), known
}

// intersection returns the intersection of the newest bounds within boundWindow.
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

// observe adds the bound of a reply.
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

// Watch returns an HTTP client that adds the bound of each reply of next.
func (c *Clock) Watch(next aws.HTTPClient) aws.HTTPClient {
	return watchedClient{clock: c, next: next}
}

type watchedClient struct {
	clock *Clock
	next  aws.HTTPClient
}

// Do sends the request and reads the reply's Date header.
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
