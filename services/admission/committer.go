package admission

import (
	"context"
	"math"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tidegate/tidegate/internal/config"
	"github.com/tidegate/tidegate/internal/shards"
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
	settings atomic.Pointer[config.Resolved]
	// outdated says that the settings are known to have changed, doubted that they
	// may have; isOutdated tells.
	outdated atomic.Bool
	doubted  atomic.Bool
	// heard is how many changes of configuration were looked at.
	heard atomic.Uint64
	// given are the limits of a bucket whose requests bring their own.
	given atomic.Pointer[[]bucket.Limit]
	// seen is the shard as the flight saw it last, or as others have since, for those
	// who look before they hand over; nil while nothing is known.
	seen atomic.Pointer[sighting]

	// Of shard 0, for a bucket that has others too.
	whole      atomic.Pointer[wholeSight] // all shards as last read; nil while nothing is known
	lastShard  atomic.Int32               // that this node spent from
	shardsThen atomic.Int32               // how many there were to choose from
	heat       atomic.Pointer[heat]       // which shards were throttled; nil while none was
	completing atomic.Bool                // missing shards are being split off
	union      atomic.Pointer[union]      // the last attempt to merge them because of a debt; nil while there was none
	relieving  atomic.Bool                // the shards are being doubled, or it is looked whether to
	relieved   atomic.Pointer[relief]     // how many were wanted last; nil while nothing was throttled
	spreading  atomic.Int64               // calls that were handed over, and are not decided yet

	mu      sync.Mutex
	reading *wholeRead    // guarded by mu: of all shards; nil while there is none
	refunds *call         // guarded by mu: the sum of refunds that are not part of a flight; nil without any
	queue   []*call       // guarded by mu: not yet part of a flight
	flight  []*call       // guarded by mu: taken by the running flight
	alarm   *time.Timer   // guarded by mu: answers calls whose time is up while the store hangs
	alarmAt time.Duration // guarded by mu: monotonic time the alarm is set to
	load    load          // guarded by mu: what the shard is asked for, for those who watch over shards
	costs   *costSamples  // guarded by mu: of the bucket, with shard 0; nil while little is asked of it
	flying  bool          // guarded by mu; here, it and absent share a word: there are many committers

	// owned by the flight
	absent     bool            // last seen, there was no item
	known      *table.Bucket   // the item as last seen; nil when unknown or absent
	seenAt     time.Duration   // monotonic time at which what brought known was asked
	learnedAt  time.Duration   // monotonic time at which it was answered
	resolvedAt time.Duration   // monotonic time at which the resolution of settings began
	renewing   *renewal        // a read of known settings; nil while none is due
	refusal    *api.Error      // what the last resolution said, when there are no limits
	unitCost   int64           // write units of one write of the item; 0 while unknown
	owedUnits  int64           // write units of refused writes, for the next write to count
	throttles  int             // in a row
	pace       pace            // of the shard, where the bucket has several
	looking    bool            // the flight reads the item for settlements: what has arrived since waits for the next step
	delivered  *sync.WaitGroup // the answers of the last write that are made apart; may be nil
}

// writeUnits is what the next write counts: itself and the refused ones before it.
func (c *committer) writeUnits() int64 { return max(1, c.unitCost) + c.owedUnits }

// sighting is a bucket shard as it was seen.
type sighting struct {
	item   *table.Bucket // nil: there was none
	unread bool          // there are no limits, so nobody asked for the item
	at     time.Duration // monotonic time at which it was asked for
}

// forget is for when nothing is known of the shard any more.
func (c *committer) forget() {
	c.known, c.absent = nil, false
	c.seen.Store(nil)
}

// enqueue hands a call over and never blocks. It reports false when this
// bucket has its share of the node's queue already.
func (c *committer) enqueue(q *call) bool {
	divided, share := c.sharded(), c.node.tuning.Queue/bucketShare
	c.mu.Lock()
	defer c.mu.Unlock()
	if !q.settle && !q.part {
		if !q.look {
			c.noteRequest(q.amounts)
		}
		if divided {
			if int(c.spreading.Load()) >= share {
				c.node.metrics.shed[scopeBucket].Inc()
				return false
			}
			c.node.spread(c, q)
			return true
		}
	}
	if len(c.queue)+len(c.flight) >= share {
		c.node.metrics.shed[scopeBucket].Inc()
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
	if !c.looking || len(c.flight) == 0 {
		c.board()
	}
	c.looking = false
	if len(c.flight) == 0 {
		c.flying, c.flight, c.queue = false, nil, nil
		c.disarm()
		return false
	}
	c.arm()
	return true
}

// board moves what waits into the flight. c.mu is held.
func (c *committer) board() {
	n := len(c.queue)
	if most := c.node.tuning.Batch; most > 0 {
		n = min(n, max(0, most-len(c.flight)))
	}
	c.boardRefunds()
	c.flight = append(c.flight, c.queue[:n]...)
	c.queue = slices.Delete(c.queue, 0, n)
}

// land answers what a panic left behind: it must not take down other buckets,
// nor leave callers waiting.
func (c *committer) land() {
	cause := recover()
	if cause == nil {
		return
	}
	c.mu.Lock()
	c.boardRefunds()
	left := append(c.flight, c.queue...)
	c.flying, c.flight, c.queue = false, nil, nil
	c.disarm()
	c.mu.Unlock()
	c.node.logPanic(about(c.node.abort, left...), cause)
	c.forget()
	for _, q := range left {
		q.answer(result{err: errInternal})
	}
}

// waiting is the flight without what was answered meanwhile; what is too late
// to spend is answered now.
func (c *committer) waiting() []*call {
	now := c.node.clock.Mono()
	stored, errClock := c.node.clock.Now()
	c.mu.Lock()
	flight := c.flight
	c.mu.Unlock()
	calls := make([]*call, 0, len(flight))
	for _, q := range flight {
		switch {
		case q.answered.Load():
		case q.deadline <= now, errClock == nil && q.expired(stored):
			q.answer(result{err: q.cause(errLate)})
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
	c.adopt()
	if c.key.Shard > 0 && c.known == nil {
		c.find(ctx, calls)
		return
	}
	if c.mustLook(calls) {
		c.look(ctx, calls)
		return
	}
	if calls = c.dropRefunds(calls); len(calls) == 0 {
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
		if calls = c.sift(calls); len(calls) == 0 {
			return
		}
	}
	now, err := c.node.clock.Now()
	if err != nil {
		c.checkClock(ctx, calls)
		return
	}
	if c.known != nil && spends(calls) {
		if sync := shards.PlanSync(now, c.known, c.settings.Load()); sync != nil {
			c.sync(ctx, calls, now, sync)
			return
		}
	}
	c.commit(ctx, calls, now)
}

// find reads a shard other than 0, which no spend creates. Where it is gone, what
// settles a lease of it goes on to its parent, which has taken it over, and who
// would spend learns that it has to look for another shard.
func (c *committer) find(ctx context.Context, calls []*call) {
	late := slices.ContainsFunc(calls, func(q *call) bool { return q.received > c.seenAt })
	if !c.absent || late {
		c.look(ctx, calls)
		return
	}
	parent := c.shard((bucket.Shard{Index: c.key.Shard}).Parent())
	c.keep(nil)
	for _, q := range calls {
		switch {
		case !q.settle:
			q.answer(result{verdict: verdictMoved})
		case q.refund:
			parent.giveBackAll(q)
		case !parent.enqueue(q):
			q.answer(result{err: errQueueFull})
		}
	}
}

// checkClock asks the store, whose answer may say what the time is, and fails
// the calls if it does not: a wrong Date must not keep the node from ever asking
// for a right one, and a store without any not make it ask without end.
func (c *committer) checkClock(ctx context.Context, calls []*call) {
	c.read(ctx, calls)
	if _, err := c.node.clock.Now(); err != nil && c.throttles == 0 {
		c.fail(calls, err)
	}
}

// mustLook reports whether a settlement concerns what the item, as last seen,
// does not have, and that was before the settlement arrived: the bucket or the
// limit may have come since, and a lease of it may be what is settled.
func (c *committer) mustLook(calls []*call) bool {
	for _, q := range calls {
		if q.settle && (c.lacks(q.amounts) || q.refund && c.known == nil) && (c.seenAt < q.received || c.known == nil && !c.absent) {
			return true
		}
	}
	return false
}

// look reads the item for what has boarded. The next step decides by what it brings,
// before others board that it would be too old for: they could follow without end.
func (c *committer) look(ctx context.Context, calls []*call) {
	c.looking = true
	c.read(ctx, calls)
}

// lacks reports whether there is a limit that the item is not known to have.
func (c *committer) lacks(amounts api.Amounts) bool {
	for _, a := range amounts {
		if c.known == nil || c.known.Find(a.Name) == nil {
			return true
		}
	}
	return false
}

func needSettings(calls []*call) bool {
	for _, q := range calls {
		if !q.settle {
			return true
		}
	}
	return false
}

// spends reports whether an acquire is among the calls.
func spends(calls []*call) bool {
	for _, q := range calls {
		if !q.settle && (!q.look || q.sync) {
			return true
		}
	}
	return false
}

// view is what the flight knows, for a plan. A bucket never seen is taken for
// absent: the create form needs no state, and is refused with the truth.
func (c *committer) view(now bucket.Instant, calls []*call) view {
	acquires := needSettings(calls)
	v := view{
		now: now, item: c.known, seenAt: c.seenAt,
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
