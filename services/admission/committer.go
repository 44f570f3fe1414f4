package admission

import (
	"context"
	"errors"
	"math"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tidegate/tidegate/internal/limits"
	"github.com/tidegate/tidegate/internal/table"
	"github.com/tidegate/tidegate/pkg/api"
	"github.com/tidegate/tidegate/pkg/bucket"
	"github.com/tidegate/tidegate/pkg/keys"
)

// maxDenialAge is how old a known state may be to deny by (DESIGN promise P2).
const maxDenialAge = time.Second

// planGrace bounds how far in the past a full shard is planned for, so that
// nodes that write one ample bucket do not fail each other's conditions. Each
// plan draws from the upper half of it, so that nodes do not move on together.
const planGrace = 50 * time.Millisecond

// never is a moment that does not come.
const never = time.Duration(math.MaxInt64)

// committer commits for one bucket shard: while one write is in flight the
// operations that arrive wait, and when it returns all of them go into the next
// one. A lone operation goes out at once.
type committer struct {
	node *Service
	key  keys.Bucket

	// settings govern the bucket; nil until first resolved. They are kept when
	// they are out of date, because their unavailable policy outlives an outage.
	settings atomic.Pointer[limits.Resolved]
	// outdated says that a change of configuration may concern settings.
	outdated atomic.Bool

	mu      sync.Mutex
	queue   []*call       // guarded by mu: not yet part of a flight
	flight  []*call       // guarded by mu: taken by the running flight
	flying  bool          // guarded by mu
	alarm   *time.Timer   // guarded by mu: answers calls whose time is up while the store hangs
	alarmAt time.Duration // guarded by mu: monotonic time the alarm is set to

	// owned by the flight
	known      *table.Bucket // the item as last seen; nil when unknown or absent
	absent     bool          // last seen, there was no item
	seenAt     time.Duration // monotonic time at which what brought known was asked
	learnedAt  time.Duration // monotonic time at which it was answered
	resolvedAt time.Duration // monotonic time at which the resolution of settings began
	refusal    *api.Error    // what the last resolution said, when there are no limits
	unitCost   int64         // write units of one write of the item; 0 while unknown
	owedUnits  int64         // write units of refused writes, for the next write to count
	throttles  int           // in a row
}

// writeUnits is what the next write counts: itself and the refused ones before it.
func (c *committer) writeUnits() int64 { return max(1, c.unitCost) + c.owedUnits }

// enqueue hands a call over and never blocks. It reports false when this
// bucket has its share of the node's queue already.
func (c *committer) enqueue(q *call) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.queue)+len(c.flight) >= c.node.tuning.Queue/bucketShare {
		return false
	}
	c.queue = append(c.queue, q)
	if !c.flying {
		c.flying = true
		c.node.flights.Go(c.fly)
		return true
	}
	if q.answerBy < c.alarmAt {
		c.setAlarm(q.answerBy)
	}
	return true
}

// fly commits until nothing waits.
func (c *committer) fly() {
	defer c.land()
	for c.take() {
		c.step(c.node.abort)
	}
}

// take moves what waits into the flight, in order of arrival behind what the
// flight has not decided yet.
func (c *committer) take() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.flight = append(c.flight, c.queue...)
	c.queue = c.queue[:0]
	if len(c.flight) == 0 {
		c.flying, c.flight, c.queue = false, nil, nil
		c.disarm()
		return false
	}
	c.arm()
	return true
}

// land answers what a panic left behind: it must not take down other buckets,
// nor leave callers waiting.
func (c *committer) land() {
	cause := recover()
	if cause == nil {
		return
	}
	c.node.logPanic(cause)
	c.mu.Lock()
	left := append(c.flight, c.queue...)
	c.flying, c.flight, c.queue = false, nil, nil
	c.disarm()
	c.mu.Unlock()
	c.known, c.absent = nil, false
	for _, q := range left {
		q.answer(result{err: errInternal})
	}
}

// arm sets the alarm to the earliest moment at which a call has to be answered.
// c.mu is held.
func (c *committer) arm() {
	earliest := never
	for _, calls := range [][]*call{c.flight, c.queue} {
		for _, q := range calls {
			if !q.answered.Load() {
				earliest = min(earliest, q.answerBy)
			}
		}
	}
	if earliest == never {
		c.disarm()
		return
	}
	c.setAlarm(earliest)
}

// setAlarm sets the alarm to a moment; c.mu is held.
func (c *committer) setAlarm(at time.Duration) {
	c.alarmAt = at
	wait := max(0, at-c.node.clock.Mono())
	if c.alarm == nil {
		c.alarm = time.AfterFunc(wait, c.overdue)
	} else {
		c.alarm.Reset(wait)
	}
}

// disarm stops the alarm; c.mu is held.
func (c *committer) disarm() {
	if c.alarm != nil {
		c.alarm.Stop()
		c.alarm = nil
	}
	c.alarmAt = never
}

// overdue answers every call whose time is up, whatever the store does.
func (c *committer) overdue() {
	now := c.node.clock.Mono()
	var late []*call
	c.mu.Lock()
	for _, calls := range [][]*call{c.flight, c.queue} {
		for _, q := range calls {
			if q.answerBy <= now && !q.answered.Load() {
				late = append(late, q)
			}
		}
	}
	c.mu.Unlock()
	for _, q := range late {
		q.answer(result{err: errStoreSlow, settings: c.settings.Load()})
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.flying {
		c.arm()
	}
}

// waiting is the flight without what was answered meanwhile; what is too late
// to spend is answered now.
func (c *committer) waiting() []*call {
	now := c.node.clock.Mono()
	c.mu.Lock()
	flight := c.flight
	c.mu.Unlock()
	calls := make([]*call, 0, len(flight))
	for _, q := range flight {
		switch {
		case q.answered.Load():
		case q.deadline <= now:
			q.answer(result{err: errLate})
		default:
			calls = append(calls, q)
		}
	}
	c.keep(calls)
	return calls
}

// keep makes the undecided calls what the flight still has to decide.
func (c *committer) keep(calls []*call) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.flight = calls
}

// step does the next thing the flight needs: resolve, read, sync or write. Each
// step ends by deciding calls or by knowing more.
func (c *committer) step(ctx context.Context) {
	calls := c.waiting()
	if len(calls) == 0 {
		return
	}
	acquires := needSettings(calls)
	if acquires || c.absent {
		if !c.resolve(ctx, calls) {
			return
		}
		if c.mustResolveAgain(calls) {
			return
		}
		if calls = c.refuseUnknownLimits(calls); len(calls) == 0 {
			return
		}
	}
	now, err := c.node.clock.Now()
	switch {
	case errors.Is(err, errClockSkewed):
		c.fail(calls, err)
		return
	case err != nil || (c.known == nil && !c.absent && !acquires):
		c.read(ctx, calls)
		return
	}
	if c.known != nil && acquires {
		if sync := newSync(now, c.known, c.settings.Load()); sync != nil {
			c.sync(ctx, calls, now, sync)
			return
		}
	}
	c.commit(ctx, calls, now)
}

func needSettings(calls []*call) bool {
	for _, q := range calls {
		if !q.settle {
			return true
		}
	}
	return false
}

// view is what the flight knows, for a plan. A bucket never seen is taken for
// absent: the create form needs no state, and is refused with the truth.
func (c *committer) view(now bucket.Instant, acquires bool) view {
	v := view{
		now: now, item: c.known,
		fresh: c.node.clock.Mono()-c.seenAt <= maxDenialAge,
		grace: (planGrace/2 + rand.N(planGrace/2)).Milliseconds(),
	}
	if acquires || c.known == nil {
		v.settings = c.settings.Load()
	}
	if c.known == nil {
		v.fresh = v.fresh && c.absent
		v.absent = true
		v.item = fullBucket(now, c.key, v.settings)
	}
	return v
}
