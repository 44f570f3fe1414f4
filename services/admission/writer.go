package admission

import (
	"math"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tidegate/tidegate/internal/config"
	"github.com/tidegate/tidegate/pkg/keys"
)

// never is a moment that does not come.
const never = time.Duration(math.MaxInt64)

// writer owns a bucket shard: no other part of the node writes the shard's item, except
// transactions over several shards. While a write is in flight, calls that arrive wait;
// when the write returns, all of them are planned for the next write. A lone call is
// written at once.
//
// A writer answers every call with a verdict, and tells its recorder about load and
// debt. It calls nothing above itself.
type writer struct {
	env      *env
	key      keys.Bucket
	recorder recorder
	settings governance
	known    knowledge

	unanswered atomic.Int64 // calls that were submitted and have no answer yet

	mu      sync.Mutex
	refunds *call         // guarded by mu: the sum of refunds that are not part of a flight; nil without any
	waiting []*call       // guarded by mu: not yet part of a flight
	flight  []*call       // guarded by mu: taken by the running flight
	alarm   *time.Timer   // guarded by mu: answers calls that run out of time while the store hangs
	alarmAt time.Duration // guarded by mu: monotonic time of the alarm
	flying  bool          // guarded by mu: a flight runs, or waits for its turn

	// owned by the flight
	turn      turn // to call the store
	peeking   bool // the flight reads the item for settlements: calls that arrived since wait for the next step
	throttles backoff
	delivered *sync.WaitGroup // the answers of the last write that are made in the background; may be nil
}

// init sets the shard that the writer owns. It is called once, before other methods.
func (w *writer) init(e *env, key keys.Bucket, r recorder) {
	w.env, w.key, w.recorder = e, key, r
	w.settings.env, w.settings.key = e, &w.key
	w.turn.init(e, &w.key, func() { flight{w}.fly() })
}

// submit hands a call over and never blocks. It reports false if the bucket has its
// share of the node's queue already.
func (w *writer) submit(q *call) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.unanswered.Load() >= int64(w.env.share) {
		w.env.metrics.shed[scopeBucket].Inc()
		return false
	}
	w.unanswered.Add(1)
	q.countedBy = &w.unanswered
	w.waiting = append(w.waiting, q)
	if w.takeOff() {
		return true
	}
	if q.answerBy < w.alarmAt {
		w.setAlarm(q.answerBy)
	}
	if q.settle {
		w.env.gate.Promote(&w.turn.ticket)
	}
	return true
}

// refund adds a sum of refunds to the sum that the shard's next write gives back. A
// refund is final: it takes no room in the queue, has no deadline, and is tried again
// until the store takes it or its outcome is unknown, in which case its tokens stay spent.
func (w *writer) refund(q *call) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.refunds == nil {
		w.refunds = q
	} else {
		w.join(w.refunds, q)
	}
	if !w.takeOff() {
		w.env.gate.Promote(&w.turn.ticket)
	}
}

// takeOff starts a flight. It reports false if a flight runs already. w.mu is held.
func (w *writer) takeOff() bool {
	if w.flying {
		return false
	}
	w.flying = true
	w.env.pool.Go(flight{w}.fly)
	return true
}

// take moves the waiting calls into the flight, in order of arrival, behind the calls
// that the flight has not decided yet. It reports false, and the flight ends, if there
// are no calls.
func (w *writer) take() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.peeking || len(w.flight) == 0 {
		w.board()
	}
	w.peeking = false
	if len(w.flight) == 0 {
		w.turn.end() // before another flight begins
		w.end()
		return false
	}
	w.arm()
	return true
}

// board moves waiting calls into the flight. w.mu is held.
func (w *writer) board() {
	n := len(w.waiting)
	if w.env.batch > 0 {
		n = min(n, max(0, w.env.batch-len(w.flight)))
	}
	w.boardRefunds()
	w.flight = append(w.flight, w.waiting[:n]...)
	w.waiting = slices.Delete(w.waiting, 0, n)
}

// boardRefunds moves the sum of refunds into the flight, before the waiting calls.
// w.mu is held.
func (w *writer) boardRefunds() {
	if w.refunds == nil {
		return
	}
	if i := slices.IndexFunc(w.flight, func(q *call) bool { return q.refund && !q.answered.Load() }); i >= 0 {
		w.join(w.flight[i], w.refunds)
	} else {
		w.flight = append(w.flight, w.refunds)
	}
	w.refunds = nil
}

// join adds a sum of refunds to another. Neither may be part of a write.
func (w *writer) join(sum, more *call) {
	sum.join(more)
	w.env.unsettled.Add(-1)
}

// empty takes all calls off a flight that ends by a panic, and returns them.
func (w *writer) empty() []*call {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.boardRefunds()
	left := append(w.flight, w.waiting...)
	w.end()
	return left
}

// inFlight returns the calls of the flight.
func (w *writer) inFlight() []*call {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.flight
}

// keep makes calls the rest that the flight has to decide.
func (w *writer) keep(calls []*call) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.flight = calls
}

// currentSettings returns the settings of the bucket, nil where a peek has to bring them.
func (w *writer) currentSettings() *config.Resolved {
	settings := w.settings.last()
	if settings == nil || w.settings.isOutdated() {
		return nil
	}
	// Without limits, no flight renews the settings by their age.
	if seen := w.known.seen.Load(); len(settings.Limits) == 0 && (seen == nil || !seen.unread || w.env.clock.Mono()-seen.at > maxSettingsAge) {
		return nil
	}
	return settings
}
