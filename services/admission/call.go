package admission

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"go.opentelemetry.io/otel/trace"

	"github.com/tidegate/tidegate/internal/config"
	"github.com/tidegate/tidegate/internal/process"
	"github.com/tidegate/tidegate/internal/shards"
	"github.com/tidegate/tidegate/internal/table"
	"github.com/tidegate/tidegate/pkg/bucket"
)

// Reasons why a call cannot be decided. The unavailable policy answers all of them
// except errLate, errInternal, errDamaged, errQueueFull and errOverloaded.
var (
	errLate        = errors.New("the caller's time was up before anything was spent")
	errStoreSlow   = errors.New("the store did not answer in time")
	errStoreDown   = errors.New("the store cannot be reached")
	errUnknown     = errors.New("the write's outcome is unknown: its tokens count as spent")
	errInternal    = errors.New("internal error")
	errSettingsGet = errors.New("the limits could not be read")
	errDamaged     = errors.New("a stored item cannot be read: the node's log says which; `tidegate bucket reset` mends a bucket")
	errQueueFull   = errors.New("the queue is full")
	errOverloaded  = errors.New("more buckets wait for the store than it can serve in the caller's time")
)

// blamed returns the reason why a call cannot be decided after a store error:
// errDamaged if the store's answer makes no sense, because then neither waiting nor a
// policy helps; outage otherwise.
func blamed(err, outage error) error {
	if errors.Is(err, table.ErrDamaged) || errors.Is(err, shards.ErrUnsettled) {
		return errDamaged
	}
	return outage
}

// call is an operation on its way through a writer. It is answered exactly once, by the
// flight that decides it or by the alarm when its time is up.
type call struct {
	operation
	asker
	caller   caller
	repeated bool     // owned by the flight: a debit of unknown outcome is written again
	failures int      // owned by the flight: of a refund, in a row
	waiters  []waiter // owned by the flight: of a refund, told by its caller

	answered  atomic.Bool
	countedBy *atomic.Int64 // counts the call until it is answered; may be nil
}

// caller receives the answer to a call.
type caller interface {
	// prepare is called during each write that includes the call, with the result that
	// the call gets unless another node writes too. So finish need not repeat work for
	// the same item.
	prepare(shardResult)
	// finish is called once, with the call and its result.
	finish(*call, shardResult)
}

// origin is the request that a call is made for.
type origin interface {
	id() string            // for log lines
	traceSpan() trace.Span // nil where the request is not traced
	isAnswered() bool      // nothing more can be told to its caller
}

// asker says for which request a call is made, and until when. The moments are
// monotonic, unless stated otherwise.
type asker struct {
	request  origin
	received time.Duration  // a read of the store that begins later includes the call's lease
	deadline time.Duration  // later, nothing is spent for the call
	expires  bucket.Instant // the deadline in the store's time, as the caller said; 0: unknown
	answerBy time.Duration  // the answer leaves by then, decided or not
}

// expired reports whether the caller has given up, given the store's time.
func (a asker) expired(now bucket.Instant) bool { return a.expires != 0 && now >= a.expires }

// about returns a context for log lines about calls: it names their requests.
func about(ctx context.Context, calls ...*call) context.Context {
	ids := make([]string, len(calls))
	for i, q := range calls {
		ids[i] = q.request.id()
	}
	return process.WithRequestIDs(ctx, ids...)
}

// answer gives the call its result. It reports false if the call was answered before.
func (q *call) answer(r shardResult) bool {
	first := q.answered.CompareAndSwap(false, true)
	if first {
		if q.countedBy != nil {
			q.countedBy.Add(-1) // before the answer: its caller may come back at once
		}
		q.caller.finish(q, r)
	}
	return first
}

// again returns the same call for another shard, after this shard was found to be gone.
func (q *call) again() *call {
	return &call{operation: q.operation, asker: q.asker, caller: q.caller, repeated: q.repeated, failures: q.failures, waiters: q.waiters}
}

// cause returns why the call cannot be decided. If the call was part of a write of
// unknown outcome, it may be applied, whatever prevents its repetition.
func (q *call) cause(err error) error {
	if q.repeated {
		return errUnknown
	}
	return err
}

// shardResult is the answer to a call.
type shardResult struct {
	err     error // why nothing is known to be spent
	verdict verdict

	// settings are the last known settings; nil if they were never known.
	settings *config.Resolved
	// item is the shard after the write, or the state that denies.
	item *table.Bucket
	now  bucket.Instant
	// later holds the amounts that operations behind this call spent in the same write, by
	// limit of item. They came after it, so its answer does not show them.
	later []int64
}

// drawn returns the drawn count of limit i after the call's own spend.
func (r *shardResult) drawn(i int) int64 {
	drawn := r.item.Limits[i].Drawn
	if r.later != nil {
		drawn -= r.later[i]
	}
	return drawn
}

// governed reports whether limit i is part of the settings. A removed limit stays on
// the item until it would be full, and is not shown.
func (r *shardResult) governed(i int) bool {
	return r.settings == nil || r.settings.Governs(r.item.Limits[i].Name)
}
