package fair

import (
	"sync"
	"sync/atomic"
	"time"
)

// Limits bounds the turns of a gate.
type Limits struct {
	Min   int // at least; the limit follows the latency above it
	Max   int // at most
	Start int // before the latency is known
}

// Gate gives turns to tickets. It is safe for concurrent use, and never blocks. Its times
// are monotonic.
type Gate struct {
	queued atomic.Int64 // the tickets that wait, for the quick answer that there are none

	mu      sync.Mutex
	queue   queue         // guarded by mu
	limit   limit         // guarded by mu
	running int           // guarded by mu: turns
	hold    time.Duration // guarded by mu: mean length of recent turns
	done    time.Duration // guarded by mu: when a call last ended, or the first turn began
	failed  int           // guarded by mu: calls in a row that got no answer
}

// NewGate returns a gate.
func NewGate(l Limits) *Gate {
	return &Gate{limit: limit{value: float64(l.Start), min: float64(l.Min), max: float64(l.Max)}}
}

// Try gives an idle ticket a turn if one is free. It reports false, and does nothing, if
// the ticket would have to wait.
func (g *Gate) Try(t *Ticket, namespace string, now time.Duration) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if !g.free() {
		g.limit.reached = true
		return false
	}
	g.queue.take(t, g.queue.tenant(namespace))
	g.begin(t, now)
	return true
}

// Enter lets an idle ticket wait for a turn. It calls the ticket's start when the turn is
// there, which may be at once.
func (g *Gate) Enter(t *Ticket, namespace string, class Class, now time.Duration) {
	g.mu.Lock()
	g.queue.push(t, namespace, class)
	started := g.dispatch(now)
	g.mu.Unlock()
	start(started)
}

// Leave ends a turn.
func (g *Gate) Leave(t *Ticket, now time.Duration) {
	g.mu.Lock()
	took := now - t.since
	if g.hold == 0 {
		g.hold = took
	}
	g.hold += (took - g.hold) / holdSamples
	g.running--
	g.queue.free(t)
	started := g.dispatch(now)
	g.mu.Unlock()
	start(started)
}

// holdSamples is the number of turns over which their mean length is taken.
const holdSamples = 64

// Cancel takes a ticket out of the queue. It reports false if the ticket does not wait:
// then it is idle, or has a turn and is told so.
func (g *Gate) Cancel(t *Ticket) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if t.place == nil {
		return false
	}
	g.queue.remove(t)
	g.count()
	return true
}

// Promote moves a ticket that waits to the settlements of its namespace, behind those that
// wait already.
func (g *Gate) Promote(t *Ticket) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if t.place == nil || t.class == Settle {
		return
	}
	name := t.tenant.name
	g.queue.remove(t)
	g.queue.push(t, name, Settle)
}

// Call describes a call to the store that ended.
type Call struct {
	Form     string // calls of a form take about as long as each other
	Took     time.Duration
	Measured bool // Took is the store's latency
	Answered bool // the store answered
}

// Ended takes in that a call ended, from which the gate learns the limit.
func (g *Gate) Ended(c Call, now time.Duration) {
	g.mu.Lock()
	g.done = now
	g.failed++
	if c.Answered {
		g.failed = 0
	}
	if c.Measured {
		g.limit.sample(now, c.Form, c.Took)
	}
	started := g.dispatch(now)
	g.mu.Unlock()
	start(started)
}

// Wait estimates how long a new ticket of a namespace would wait for the end of its turn;
// 0 if it would get a turn at once.
func (g *Gate) Wait(namespace string) time.Duration {
	if g.queued.Load() == 0 {
		return 0
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.free() {
		return 0
	}
	turns := time.Duration(g.queue.ahead(namespace) + 1)
	return g.hold + turns*g.hold/time.Duration(g.limit.current())
}

const (
	// failedCalls in a row without an answer mean that the store is away.
	failedCalls = 8
	// stallTime and stallTurns bound how long no call may end while tickets wait.
	stallTime  = 100 * time.Millisecond
	stallTurns = 8
)

// Away reports whether the store, and not the load, is the reason why tickets wait: it does
// not answer.
func (g *Gate) Away(now time.Duration) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	stalled := g.queue.waiting() > 0 && now-g.done > max(stallTime, stallTurns*g.hold)
	return stalled || g.failed >= failedCalls
}

// Stats is the state of a gate.
type Stats struct {
	Limit, Running int
	Waiting        [2]int // by class
}

// Stats returns the gate's state.
func (g *Gate) Stats() Stats {
	g.mu.Lock()
	defer g.mu.Unlock()
	return Stats{Limit: g.limit.current(), Running: g.running, Waiting: g.queue.length}
}

// free reports whether a new ticket gets a turn at once. g.mu is held.
func (g *Gate) free() bool { return g.running < g.limit.current() && g.queue.waiting() == 0 }

// begin begins a turn. g.mu is held.
func (g *Gate) begin(t *Ticket, now time.Duration) {
	t.since = now
	if g.running == 0 {
		g.done = now
	}
	g.running++
}

// dispatch gives the free turns to tickets that wait, and returns them. g.mu is held.
func (g *Gate) dispatch(now time.Duration) (started []*Ticket) {
	for g.running < g.limit.current() {
		t := g.queue.pop()
		if t == nil {
			break
		}
		g.begin(t, now)
		started = append(started, t)
	}
	if g.queue.waiting() > 0 {
		g.limit.reached = true
	}
	g.count()
	return started
}

// count tells Wait whether tickets wait. g.mu is held.
func (g *Gate) count() { g.queued.Store(int64(g.queue.waiting())) }

// start tells tickets that their turn is there. g.mu is not held: a ticket may end its turn
// before the next is told.
func start(tickets []*Ticket) {
	for _, t := range tickets {
		t.start()
	}
}
