package admission

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"github.com/tidegate/tidegate/internal/config"
	"github.com/tidegate/tidegate/internal/process"
	"github.com/tidegate/tidegate/internal/shards"
	"github.com/tidegate/tidegate/internal/table"
	"github.com/tidegate/tidegate/pkg/bucket"
	"github.com/tidegate/tidegate/services/admission/lease"
)

// What keeps a call from being decided. All of them but errLate, errInternal and
// errDamaged are answered by the unavailable policy.
var (
	errLate        = lease.ErrLate
	errStoreSlow   = errors.New("the store did not answer in time")
	errStoreDown   = errors.New("the store cannot be reached")
	errUnknown     = errors.New("the write's outcome is unknown: its tokens count as spent")
	errInternal    = errors.New("internal error")
	errSettingsGet = errors.New("the limits could not be read")
	errDamaged     = errors.New("a stored item cannot be read: the node's log says which; `tidegate bucket reset` mends a bucket")
)

// blamed returns what keeps a call from being decided when the store brought an error:
// errDamaged if the store answered and the answer makes no sense, which no waiting
// ends and no policy admits by; otherwise outage.
func blamed(err, outage error) error {
	if errors.Is(err, table.ErrDamaged) || errors.Is(err, shards.ErrUnsettled) {
		return errDamaged
	}
	return outage
}

// call is one operation on its way through a committer. It is answered exactly
// once, by the flight that decides it or by the alarm when its time is up.
type call struct {
	operation
	asker
	repeated bool     // owned by the flight: a debit of unknown outcome is written once more
	failures int      // owned by the flight: of a refund, in a row
	waiters  []waiter // owned by the flight: of a refund, told by finish

	answered atomic.Bool
	finish   func(result)
	// prepare is called beside each write that the call is part of, with what its
	// result will be if nobody else writes: finish need not do again what is done
	// for the same item. Nil where there is nothing to do.
	prepare func(result)
}

// asker is who waits for a call, and until when. The moments are monotonic.
type asker struct {
	request  *request
	received time.Duration  // what is asked of the store from then on knows of the call's lease
	deadline time.Duration  // later than this, nothing is spent for it
	expires  bucket.Instant // the same in the store's time, as the caller said; 0: it did not
	answerBy time.Duration  // by then the answer leaves, decided or not
}

// about is a context for log lines on calls: they name the requests.
func about(ctx context.Context, calls ...*call) context.Context {
	ids := make([]string, len(calls))
	for i, q := range calls {
		ids[i] = q.request.id()
	}
	return process.WithRequestIDs(ctx, ids...)
}

// answer gives the call its result. It reports false where somebody has before.
func (q *call) answer(r result) bool {
	first := q.answered.CompareAndSwap(false, true)
	if first {
		q.finish(r)
	}
	return first
}

// cause is why the call cannot be decided. One that was part of a write of
// unknown outcome may be applied, whatever keeps its repetition from being done.
func (q *call) cause(err error) error {
	if q.repeated {
		return errUnknown
	}
	return err
}

// result is how a call ended.
type result struct {
	err     error // nothing is known to be spent, and why
	verdict verdict

	// settings are the last known ones; nil when they never were.
	settings *config.Resolved
	// item is the shard after the write, or the state that denies.
	item *table.Bucket
	// others are the other shards of the bucket, as far as they are known.
	others []*table.Bucket
	// gathered is what was taken from each of several shards, the item among them.
	gathered []table.Commit
	now      bucket.Instant
	// later is what operations behind this one spent in the same write, by
	// limit of item: they came after it, so its answer does not show them.
	later []int64
}

// pool is limit i over the shards of the bucket, after the call's own spend.
func (r *result) pool(i int) bucket.Pool {
	l := &r.item.Limits[i]
	drawn := l.Drawn
	if r.later != nil {
		drawn -= r.later[i]
	}
	p := bucket.Pool{Limit: l.Limit, Shards: append(make([]bucket.ShardDrawn, 0, 1+len(r.others)), bucket.ShardDrawn{Shard: r.item.Shard(), Drawn: drawn})}
	for _, b := range r.others {
		if l := b.Find(l.Name); l != nil {
			p.Shards = append(p.Shards, bucket.ShardDrawn{Shard: b.Shard(), Drawn: l.Drawn})
		}
	}
	return p
}

// available is the balance of limit i after the call's own spend, in millitokens.
func (r *result) available(i int) int64 { return r.pool(i).Available(r.now) }

// governed reports whether limit i is one of the settings; one that was removed
// stays on the item until it would be full, and is not shown.
func (r *result) governed(i int) bool {
	return r.settings == nil || r.settings.Governs(r.item.Limits[i].Name)
}
