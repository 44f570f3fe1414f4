package tidegate

import (
	"sync"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/tidegate/tidegate/pkg/api"
)

const (
	// timeUnit is the unit to which replies truncate the store's time.
	timeUnit = time.Millisecond
	// driftPart bounds the drift of two clocks, as a fraction of the time since the last
	// reply: 1/5000 is 200 ppm, twice the drift of a poor oscillator.
	driftPart = 5000
	// aheadFor is how long the clock of the node that is ahead counts, while replies
	// come from others.
	aheadFor = 10 * time.Second
	// timeAge is how long the store's time is known without a reply.
	timeAge = 5 * time.Minute
	// maxParting is how far this machine's wall and monotonic clock may part: beyond
	// it, the machine slept, or its clock was set.
	maxParting = 100 * time.Millisecond
)

// storeTime converts deadlines of this process to the store's time. Each reply bounds how
// far the store's time is ahead of the local time,
//
//	told − received  ≤  ahead  ≤  told + 1 ms − sent
//
// and the intersection of the bounds is about as wide as the fastest round trip. Deadlines
// use the upper bound, so that an error here never ends a request early. Nodes' clocks
// differ too: if bounds contradict each other, the higher bound wins.
//
// Local time is monotonic, counted from the anchor.
type storeTime struct {
	read func() moment

	mu        sync.Mutex
	anchor    moment        // guarded by mu
	known     bool          // guarded by mu
	low, high time.Duration // guarded by mu: the bounds
	at        time.Duration // guarded by mu: monotonic time of the last reply that narrowed or replaced them
}

// moment is a reading of this machine's clock.
type moment struct {
	wall time.Time     // may be set
	mono time.Duration // never jumps, and stands still while the machine sleeps
}

// systemTime reads the machine's clock.
func systemTime() func() moment {
	start := time.Now()
	return func() moment {
		now := time.Now()
		return moment{now.Round(0), now.Sub(start)}
	}
}

func newStoreTime(read func() moment) *storeTime { return &storeTime{read: read, anchor: read()} }

// deadline returns the moment after wait in the store's time; known is false until a
// reply has told it.
func (s *storeTime) deadline(wait time.Duration) (at time.Time, known bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.check()
	age := now - s.at
	if !s.known || age > timeAge {
		return time.Time{}, false
	}
	return s.local(now).Add(wait + s.high + age/driftPart), true
}

// learn applies the bounds of a reply; sent is the monotonic time of its request.
func (s *storeTime) learn(sent time.Duration, header nats.Header) {
	told, ok := api.ParseTime(header.Get(api.HeaderTime))
	if !ok {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.check()
	if sent < s.anchor.mono {
		return // the clock was set, or the machine slept, in between
	}
	low, high := told.Sub(s.local(now)), told.Add(timeUnit).Sub(s.local(sent))
	age := now - s.at
	knownLow, knownHigh := s.low-age/driftPart, s.high+age/driftPart
	switch {
	case !s.known, low > knownHigh, high < knownLow && age > aheadFor:
		s.known, s.low, s.high = true, low, high
	case high < knownLow:
		return // this node's clock is behind another node's
	default:
		s.low, s.high = max(low, knownLow), min(high, knownHigh)
	}
	s.at = now
}

// check reads the monotonic time, and forgets the bounds when wall and monotonic time
// have parted; s.mu is held.
func (s *storeTime) check() time.Duration {
	now := s.read()
	if now.wall.Sub(s.local(now.mono)).Abs() >= maxParting {
		s.anchor, s.known = now, false
	}
	return now.mono
}

// local returns the local time; s.mu is held.
func (s *storeTime) local(mono time.Duration) time.Time {
	return s.anchor.wall.Add(mono - s.anchor.mono)
}
