package admission

import (
	"context"
	"slices"

	"github.com/tidegate/tidegate/services/admission/fair"
)

// formResolve is a read of settings, as the gate's limit tells it from others.
const formResolve = "resolve"

// turnLimits are the limits of a node's turns: the calls to the store at a time. The
// smallest limit keeps a node at work whose machine, and not the store, is slow. The HTTP
// client keeps as many connections open as the largest.
func turnLimits() fair.Limits { return fair.Limits{Min: 8, Max: 512, Start: 64} }

// mayCall reports whether the flight may call the store. If not, the step ends, and the
// flight goes on when its turn comes, with all calls that wait then.
func (f flight) mayCall() bool {
	if !f.turn && !f.parked {
		f.turn = f.env.gate.Try(&f.ticket, f.key.Namespace, f.env.clock.Mono())
		f.parked = !f.turn
	}
	return f.turn
}

// endTurn gives the turn to another flight.
func (f flight) endTurn() {
	if f.turn {
		f.turn = false
		f.env.gate.Leave(&f.ticket, f.env.clock.Mono())
	}
}

// rest waits before the next attempt at a throttled store, without a turn.
func (f flight) rest(ctx context.Context) {
	f.endTurn()
	f.throttles.wait(ctx)
}

// park makes the flight wait for its turn. It must be the flight's last act, because the
// flight may go on at once. Acquires that cannot wait so long are refused; if no calls are
// left, the flight ends.
func (f flight) park() {
	for _, q := range f.inFlight() {
		if !q.isLone() || q.answered.Load() {
			continue
		}
		if err := f.env.refusesTurn(f.key.Namespace, q.asker); err != nil {
			f.env.metrics.shed[scopeStore].Inc()
			q.answer(shardResult{err: q.cause(err), settings: f.settings.last()})
		}
	}
	f.writer.enter()
}

// enter makes the flight wait for its turn, or ends it if no call waits for it.
func (w *writer) enter() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.parked = false
	if w.isIdle() {
		w.end()
		return
	}
	class := fair.Acquire
	if w.refunds != nil || slices.ContainsFunc(w.flight, isSettlement) || slices.ContainsFunc(w.waiting, isSettlement) {
		class = fair.Settle
	}
	w.env.pool.Hold()
	w.env.gate.Enter(&w.ticket, w.key.Namespace, class, w.env.clock.Mono())
}

// unpark goes on with the flight: its turn is there.
func (w *writer) unpark() {
	w.env.pool.Go(func() {
		w.turn = true
		flight{w}.fly()
	})
	w.env.pool.Release()
}

// leaveQueue ends a flight that waits for its turn without a call that waits for it.
// w.mu is held.
func (w *writer) leaveQueue() {
	if w.isIdle() && w.env.gate.Cancel(&w.ticket) {
		w.end()
		w.env.pool.Release()
	}
}

// isIdle reports whether no call waits for an answer. w.mu is held.
func (w *writer) isIdle() bool {
	return w.refunds == nil && !slices.ContainsFunc(w.flight, isUnanswered) && !slices.ContainsFunc(w.waiting, isUnanswered)
}

// end ends the flight. w.mu is held.
func (w *writer) end() {
	w.flying, w.flight, w.waiting = false, nil, nil
	w.disarm()
}

// isLone reports whether the call is an acquire that spends nothing elsewhere, so that its
// refusal leaves nothing to refund.
func (q *call) isLone() bool { return !q.settle && !q.part && !q.peek && q.under == "" }

func isUnanswered(q *call) bool { return !q.answered.Load() }

func isSettlement(q *call) bool { return q.settle && !q.answered.Load() }

// turn waits for a turn until ctx ends. leave ends the turn.
func (e *env) turn(ctx context.Context, namespace string) (leave func(), err error) {
	ready := make(chan struct{})
	t := fair.NewTicket(func() { close(ready) })
	leave = func() { e.gate.Leave(&t, e.clock.Mono()) }
	if e.gate.Try(&t, namespace, e.clock.Mono()) {
		return leave, nil
	}
	e.gate.Enter(&t, namespace, fair.Acquire, e.clock.Mono())
	select {
	case <-ready:
		return leave, nil
	case <-ctx.Done():
		if !e.gate.Cancel(&t) { // the turn came at this moment
			<-ready
			leave()
		}
		return nil, ctx.Err()
	}
}

// refusesTurn returns why a call cannot wait for a turn: half of its time would be gone. The
// estimate may be wrong by as much.
func (e *env) refusesTurn(namespace string, whose asker) error {
	wait := e.gate.Wait(namespace)
	if wait == 0 {
		return nil
	}
	now := e.clock.Mono()
	switch {
	case 2*wait <= whose.answerBy-now:
		return nil
	case e.gate.Away(now):
		return errStoreSlow
	}
	return errOverloaded
}

// needsNoTurn reports whether a call may be decided without a turn of its own: by the flight
// under way, or by the known state.
func (w *writer) needsNoTurn() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	seen := w.known.seen.Load()
	return w.flying || (seen != nil && w.env.clock.Mono()-seen.at <= maxDenialAge)
}
