package admission

import (
	"errors"
	"sync/atomic"
	"time"

	"github.com/tidegate/tidegate/internal/limits"
	"github.com/tidegate/tidegate/internal/table"
	"github.com/tidegate/tidegate/pkg/bucket"
)

// What keeps a call from being decided. All of them but errLate and errInternal
// are answered by the unavailable policy.
var (
	errLate        = errors.New("the caller's time was up before anything was spent")
	errStoreSlow   = errors.New("the store did not answer in time")
	errStoreDown   = errors.New("the store cannot be reached")
	errUnknown     = errors.New("the write's outcome is unknown: its tokens count as spent")
	errInternal    = errors.New("internal error")
	errSettingsGet = errors.New("the limits could not be read")
)

// call is one operation on its way through a committer. It is answered exactly
// once, by the flight that decides it or by the alarm when its time is up.
type call struct {
	operation
	deadline time.Duration // monotonic: later than this, nothing is spent for it
	answerBy time.Duration // monotonic: by then the answer leaves, decided or not
	repeated bool          // owned by the flight: a debit of unknown outcome is written once more

	answered atomic.Bool
	finish   func(result)
}

// answer gives the call its result, if nobody has before.
func (q *call) answer(r result) {
	if q.answered.CompareAndSwap(false, true) {
		q.finish(r)
	}
}

// result is how a call ended.
type result struct {
	err     error // nothing is known to be spent, and why
	verdict verdict

	// settings are the last known ones; nil when they never were.
	settings *limits.Resolved
	// item is the shard after the write, or the state that denies.
	item *table.Bucket
	now  bucket.Instant
	// later is what operations behind this one spent in the same write, by
	// limit of item: they came after it, so its answer does not show them.
	later []int64
}

// pool is limit i over the shards of the bucket.
func (r *result) pool(i int) bucket.Pool {
	l := &r.item.Limits[i]
	return bucket.Pool{Limit: l.Limit, Shards: []bucket.ShardDrawn{{Shard: r.item.Shard(), Drawn: l.Drawn}}}
}

// available is the balance of limit i after the call's own spend, in millitokens.
func (r *result) available(i int) int64 {
	balance := r.pool(i).Available(r.now)
	if r.later != nil {
		balance = min(balance+r.later[i], r.item.Limits[i].Capacity)
	}
	return balance
}

// governed reports whether limit i is one of the settings; one that was removed
// stays on the item until it would be full, and is not shown.
func (r *result) governed(i int) bool {
	return r.settings == nil || governs(r.settings, r.item.Limits[i].Name)
}
