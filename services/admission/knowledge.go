package admission

import (
	"sync/atomic"
	"time"

	"github.com/tidegate/tidegate/internal/config"
	"github.com/tidegate/tidegate/internal/jitter"
	"github.com/tidegate/tidegate/internal/table"
	"github.com/tidegate/tidegate/pkg/api"
	"github.com/tidegate/tidegate/pkg/bucket"
	"github.com/tidegate/tidegate/pkg/keys"
)

// maxDenialAge is the age up to which a known state may deny (DESIGN promise P2).
const maxDenialAge = time.Second

// planGrace bounds how far in the past a full shard is planned for, so that nodes that
// write an ample bucket do not fail each other's conditions. Each plan draws from the
// upper half of it, so that nodes do not move on together.
const planGrace = 50 * time.Millisecond

// snapshot is a bucket shard as a read or a write brought it.
type snapshot struct {
	item   *table.Bucket // nil: there was no item
	unread bool          // the item was not asked for, because there are no limits
	at     time.Duration // monotonic time at which the item was asked for
}

// knowledge is the state of a shard, as far as its writer knows it.
type knowledge struct {
	// seen is the last snapshot; nil while the shard is unknown. The flight stores it, or
	// the router offers it, and every goroutine may load it.
	seen atomic.Pointer[snapshot]

	// owned by the flight
	absent    bool          // the last read or write found no item
	item      *table.Bucket // as last seen; nil where it is unknown or absent
	seenAt    time.Duration // monotonic time at which item was asked for
	learnedAt time.Duration // monotonic time at which the answer came
	unitCost  int64         // write units of a write of the item; 0 while unknown
	owedUnits int64         // write units of refused writes, for the next write to count
}

// isDivided reports whether the shard was last seen as part of a bucket of several.
func (k *knowledge) isDivided() bool {
	seen := k.seen.Load()
	return seen != nil && seen.item != nil && seen.item.Level > 1
}

// learn takes over the state that an answer of the store brought; nil stands for no item.
func (k *knowledge) learn(item *table.Bucket, asked, now time.Duration) {
	k.item, k.absent = item, item == nil
	k.seenAt, k.learnedAt = asked, now
	k.seen.Store(&snapshot{item: item, at: asked})
}

// adopt takes over a newer snapshot that was offered.
func (k *knowledge) adopt(now time.Duration) {
	if seen := k.seen.Load(); seen != nil && !seen.unread && seen.at > k.seenAt {
		k.item, k.absent = seen.item, seen.item == nil
		k.seenAt, k.learnedAt = seen.at, now
	}
}

// offer stores a snapshot that was not read by the writer's flight, if it is newer.
func (k *knowledge) offer(item *table.Bucket, asked time.Duration) {
	before := k.seen.Load()
	if before != nil && (before.unread || before.at >= asked) {
		return
	}
	k.seen.CompareAndSwap(before, &snapshot{item: item, at: asked})
}

// forget drops the state, because a write or a panic made it doubtful.
func (k *knowledge) forget() {
	k.item, k.absent = nil, false
	k.seen.Store(nil)
}

// writeUnits returns the units that the next write counts: its own, and the refused
// writes before it.
func (k *knowledge) writeUnits() int64 { return max(1, k.unitCost) + k.owedUnits }

// lacks reports whether the item is not known to have every limit of amounts.
func (k *knowledge) lacks(amounts api.Amounts) bool {
	for _, a := range amounts {
		if k.item == nil || k.item.Find(a.Name) == nil {
			return true
		}
	}
	return false
}

// mustPeek reports whether a settlement concerns a limit that the item lacked before the
// settlement arrived. The bucket or the limit may exist since, with a lease of it.
func (k *knowledge) mustPeek(calls []*call) bool {
	for _, q := range calls {
		if q.settle && (k.lacks(q.amounts) || q.refund && k.item == nil) && (k.seenAt < q.received || k.item == nil && !k.absent) {
			return true
		}
	}
	return false
}

// view returns the state for a plan at the moment now; mono is the same moment,
// monotonic. A bucket never seen counts as absent: the create form needs no state, and
// its refusal brings the state. Settings may be nil only for an item that is there.
func (k *knowledge) view(now bucket.Instant, mono time.Duration, key keys.Bucket, settings *config.Resolved) view {
	v := view{
		now: now, item: k.item, seenAt: k.seenAt, settings: settings,
		fresh: mono-k.seenAt <= maxDenialAge,
		grace: (planGrace/2 + jitter.N(planGrace/2)).Milliseconds(),
	}
	if k.item == nil {
		v.fresh = v.fresh && k.absent
		v.absent = true
		v.item = fullBucket(now, key, settings)
	}
	return v
}
