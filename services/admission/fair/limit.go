package fair

import (
	"math"
	"time"
)

const (
	// window is the shortest time after which the limit is changed.
	window = 100 * time.Millisecond
	// windowSamples is the number of calls that a window has at least, unless it takes
	// longestWindow.
	windowSamples = 10
	longestWindow = time.Second
	// baseCalls is the number of calls of which the mean can lower a base.
	baseCalls = 4
	// tolerance and slack make the target of a form's latency from its base: the store may
	// queue calls for as long as it works on them, and for 3 ms, which is no matter for
	// callers and is the noise of a machine that works for others too.
	tolerance = 2
	slack     = 3 * time.Millisecond
	// shrink and grow bound the change of the limit in a window. A pause of the garbage
	// collector spoils a window, and shall cost little.
	shrink, grow = 0.7, 1.5
	// An epoch is the time for which a base is learned: short at the start, because a node
	// that starts under load learns a wrong base.
	firstEpoch = time.Second
	lastEpoch  = 32 * time.Second
)

// limit is the number of turns at a time. It follows the latency of the store.
type limit struct {
	value    float64
	min, max float64
	bases    map[string]*base // by form of call

	since    time.Duration // when the window began
	reached  bool          // in this window: tickets waited
	rested   bool          // in this epoch: a window in which the limit was not reached
	epoch    time.Duration // length
	epochEnd time.Duration
	probing  float64 // the value to return to after a probe; 0 while there is no probe
}

// base is the latency of a form of call while the store has no queue.
type base struct {
	last, current time.Duration // the smallest mean of the last epoch, and of the current; 0: none
	calls         int           // in this window
	sum           time.Duration // of their latencies
}

func (b *base) value() time.Duration {
	if b.last == 0 || (b.current != 0 && b.current < b.last) {
		return b.current
	}
	return b.last
}

// current returns the number of turns at a time.
func (l *limit) current() int { return int(l.value) }

// sample takes in the latency of a call that ended now.
func (l *limit) sample(now time.Duration, form string, took time.Duration) {
	if l.epoch == 0 {
		l.since, l.epoch, l.epochEnd = now-took, firstEpoch, now+firstEpoch
		l.bases = make(map[string]*base)
	}
	b, ok := l.bases[form]
	if !ok {
		b = &base{}
		l.bases[form] = b
	}
	if l.probing > 0 && now-took < l.since {
		return // it began before the probe
	}
	b.calls++
	b.sum += took
	if now-l.since >= window {
		l.endWindow(now)
	}
}

// endWindow changes the limit by the calls of the window.
func (l *limit) endWindow(now time.Duration) {
	calls := 0
	for _, b := range l.bases {
		calls += b.calls
	}
	if calls < windowSamples && now-l.since < longestWindow {
		return
	}
	var took, target time.Duration
	for _, b := range l.bases {
		if b.calls == 0 {
			continue
		}
		mean := max(1, b.sum/time.Duration(b.calls))
		if b.current == 0 || (mean < b.current && b.calls >= baseCalls) {
			b.current = mean
		}
		took += b.sum
		target += time.Duration(b.calls) * (tolerance*b.value() + slack)
		b.calls, b.sum = 0, 0
	}
	if l.probing > 0 {
		l.value, l.probing = l.probing, 0
	} else {
		l.adapt(math.Sqrt(float64(target) / float64(max(1, took))))
	}
	l.rested = l.rested || !l.reached
	l.since, l.reached = now, false
	if now >= l.epochEnd {
		l.endEpoch(now, target, took)
	}
}

// adapt multiplies the limit by a factor, within bounds.
func (l *limit) adapt(factor float64) {
	if factor > 1 && !l.reached {
		return
	}
	l.value = min(l.max, max(l.min, l.value*min(grow, max(shrink, factor))))
}

// endEpoch begins to learn the bases anew. If the store had a queue all the time, the next
// window is a probe: it leaves the store half idle.
func (l *limit) endEpoch(now, target, took time.Duration) {
	idle := 0.0 // the part of the latency that is the store's work
	for _, b := range l.bases {
		b.last, b.current = b.current, 0
	}
	if !l.rested {
		idle = float64(target) / float64(max(target, took)) / (2 * tolerance)
		l.probing = l.value
		l.value = max(1, l.value*idle)
	}
	l.rested = false
	l.epoch = min(lastEpoch, 2*l.epoch)
	l.epochEnd = now + l.epoch
}
