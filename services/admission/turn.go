package admission

import (
	"context"
	"slices"

	"github.com/tidegate/tidegate/pkg/keys"
	"github.com/tidegate/tidegate/services/admission/fair"
)

// formResolve is a read of settings, as the gate's limit tells it from others.
const formResolve = "resolve"

// turnLimits are the limits of a node's turns: the calls to the store at a time. The
// smallest limit keeps a node at work whose machine, and not the store, is slow. The HTTP
// client keeps as many connections open as the largest.
func turnLimits() fair.Limits { return fair.Limits{Min: 8, Max: 512, Start: 64} }

// turn is a flight's right to call the store. Only the flight uses it, except for leave.
type turn struct {
	env    *env
	key    *keys.Bucket
	goOn   func() // goes on with the flight, in the background
	ticket fair.Ticket
	held   bool
	parked bool // the flight needs a turn, and none is free
}

// init sets what the turn is for. It is called once, before other methods.
func (t *turn) init(e *env, key *keys.Bucket, goOn func()) {
	t.env, t.key, t.goOn = e, key, goOn
	t.ticket = fair.NewTicket(t.come)
}

// take reports whether the flight may call the store. If not, the step ends, and the
// flight goes on when its turn comes, with all calls that wait then.
func (t *turn) take() bool {
	if !t.held && !t.parked {
		t.held = t.env.gate.Try(&t.ticket, t.key.Namespace, t.env.clock.Mono())
		t.parked = !t.held
	}
	return t.held
}

// end gives the turn to another flight.
func (t *turn) end() {
	if t.held {
		t.held = false
		t.env.gate.Leave(&t.ticket, t.env.clock.Mono())
	}
}

// await lets the flight wait for its turn. The flight ends here, and goes on when its turn
// comes, perhaps at once.
func (t *turn) await(class fair.Class) {
	t.env.pool.Hold()
	t.env.gate.Enter(&t.ticket, t.key.Namespace, class, t.env.clock.Mono())
}

// come goes on with the flight: its turn is there.
func (t *turn) come() {
	t.env.pool.Go(func() {
		t.held = true
		t.goOn()
	})
	t.env.pool.Release()
}

// leave takes the flight out of the queue. It reports false if the flight does not wait.
func (t *turn) leave() bool {
	left := t.env.gate.Cancel(&t.ticket)
	if left {
		t.env.pool.Release()
	}
	return left
}

// rest waits before the next attempt at a throttled store, without a turn.
func (b *backoff) rest(ctx context.Context, t *turn) {
	t.end()
	b.wait(ctx)
}

// park makes a flight wait for its turn. It must be the flight's last act, because the
// flight may go on at once. Acquires that cannot wait so long are refused; if no call is
// left, the flight ends.
func park(f flight) {
	f.turn.parked = false
	for _, q := range f.inFlight() {
		if !q.isLone() || q.answered.Load() {
			continue
		}
		if err := f.env.refusesTurn(f.key.Namespace, q.asker); err != nil {
			f.env.metrics.shed[scopeStore].Inc()
			q.answer(shardResult{err: q.cause(err), settings: f.settings.last()})
		}
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	switch {
	case f.isIdle():
		f.end()
	case f.refunds != nil || slices.ContainsFunc(f.flight, isSettlement) || slices.ContainsFunc(f.waiting, isSettlement):
		f.turn.await(fair.Settle)
	default:
		f.turn.await(fair.Acquire)
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
