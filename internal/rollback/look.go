package rollback

import (
	"context"
	"errors"

	"github.com/tidegate/tidegate/internal/leader"
)

// tick looks at the stream and tells the others.
func (g *Guard) tick(ctx context.Context) {
	if err := g.look(ctx); err != nil {
		_ = g.fails(ctx, err)
	}
	g.pay(ctx)
	g.tell(false)
	g.forget()
}

// fails counts and logs a failure that is tried again at the next tick.
func (g *Guard) fails(ctx context.Context, err error) error {
	if ctx.Err() == nil {
		g.metrics.failures.Inc()
		g.cfg.Log.WarnContext(ctx, "it is unknown whether NATS has forgotten settlements: looking again", "stream", g.stream, "error", err)
	}
	return err
}

// look finds out whether the stream still has this node's beat, and with it all
// that the node wrote before. A look within a single term counts for it.
func (g *Guard) look(ctx context.Context) error {
	ctx = context.WithoutCancel(ctx)
	term, err := g.term(ctx)
	if err != nil {
		g.sees(leader.Term{})
		return err
	}
	g.sees(term)
	if err := g.verify(ctx, term); err != nil {
		return err
	}
	if g.hasLooked(term) && g.cfg.Now().Sub(g.refreshed) < refreshEvery {
		return nil
	}
	call, cancel := g.request(ctx)
	defer cancel()
	if err := g.cfg.Epochs.Refresh(call); err != nil {
		return err
	}
	g.refreshed = g.cfg.Now()
	return g.confirm(ctx, term)
}

// confirm makes a look count, if the term is still the same.
func (g *Guard) confirm(ctx context.Context, term leader.Term) error {
	if now, err := g.term(ctx); err != nil || now != term {
		return errors.Join(err, leader.ErrInterrupted)
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.looked != term {
		g.looked, g.since = term, g.cfg.Now()
	}
	g.signal()
	select {
	case <-g.ready:
	default:
		close(g.ready)
	}
	return nil
}

func (g *Guard) term(ctx context.Context) (leader.Term, error) {
	call, cancel := g.request(ctx)
	defer cancel()
	return leader.TermOf(call, g.cfg.NATS, g.stream)
}

// sees notes the term that the leader reports, or the zero Term.
func (g *Guard) sees(term leader.Term) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.seen = term
}

func (g *Guard) hasLooked(term leader.Term) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.looked == term
}

// found is the leader's state of a beat.
type found uint8

const (
	foundSame    found = iota // the last beat that was acknowledged
	foundPending              // a later beat with a lost acknowledgement; it is the last now
	foundOther                // an older beat, or no beat: the stream was rolled back, or its leader is behind
)

// find reads the beat at the leader.
func (g *Guard) find(ctx context.Context) (found, error) {
	call, cancel := g.request(ctx)
	defer cancel()
	m, err := leader.Last(call, g.cfg.NATS, g.stream, g.beat.subject)
	switch {
	case errors.Is(err, leader.ErrNone) && g.beat.sequence == 0:
		return foundSame, nil
	case errors.Is(err, leader.ErrNone):
		return foundOther, nil
	case err != nil:
		return foundOther, err
	}
	nonce := string(m.Data)
	switch {
	case m.Sequence == g.beat.sequence && nonce == g.beat.nonce:
		return foundSame, nil
	case m.Sequence > g.beat.sequence && g.pending[nonce]:
		g.acknowledged(nonce, m.Sequence)
		return foundPending, nil
	}
	return foundOther, nil
}

// verify finds out whether the beat is there, renews an old beat, and handles
// the consequences of a missing beat.
func (g *Guard) verify(ctx context.Context, term leader.Term) error {
	state, err := g.find(ctx)
	if err != nil {
		return err
	}
	age := g.cfg.Now().Sub(g.beat.at)
	switch {
	case state != foundOther:
		if g.beat.sequence > 0 && age < g.tuning.Renew {
			return nil
		}
		return g.renew(ctx)
	case g.maxAge > 0 && age > g.maxAge-g.tuning.Renew:
		g.fresh() // it expired, and so did all that was written before it
		return g.renew(ctx)
	}
	return g.doubt(ctx, term)
}

// doubt tells a rollback from a leader that is behind, which a server may believe
// to be for a while after the others chose another. A beat under a new key is
// acknowledged by a quorum alone; the leader that has it has all before it.
func (g *Guard) doubt(ctx context.Context, term leader.Term) error {
	old, pending := g.beat, g.pending
	restore := func() { g.beat, g.pending = old, pending }
	g.fresh()
	if err := g.renew(ctx); err != nil {
		restore()
		return err
	}
	next := g.beat
	if state, err := g.find(ctx); err != nil || state != foundSame {
		restore()
		return errors.Join(err, leader.ErrInterrupted)
	}
	restore()
	state, err := g.find(ctx)
	if err != nil {
		return err
	}
	if now, err := g.term(ctx); err != nil || now != term {
		return errors.Join(err, leader.ErrInterrupted)
	}
	g.beat, g.pending = next, map[string]bool{}
	if state == foundOther {
		g.rolledBack(ctx, old)
	}
	return nil
}

// rolledBack ends the epoch in which the lost beat was written. This node and the nodes
// that hear it stop giving credits to its leases at once, the table follows.
func (g *Guard) rolledBack(ctx context.Context, lost beat) {
	g.metrics.rollbacks.Inc()
	g.cfg.Log.ErrorContext(ctx, "NATS has forgotten settlements that it had acknowledged: leases from before get no credit any more",
		"stream", g.stream, "lost", lost.sequence, "epoch", lost.epoch+1)
	g.cfg.Epochs.Adopt(lost.epoch + 1)
	g.owed = max(g.owed, lost.epoch+1)
	g.beat.epoch = g.cfg.Epochs.Current()
	g.tell(false)
}

// pay brings an epoch into the table that this node has begun.
func (g *Guard) pay(ctx context.Context) {
	if g.owed == 0 {
		return
	}
	call, cancel := g.request(ctx)
	defer cancel()
	if _, err := g.cfg.Epochs.Advance(call, g.owed-1); err != nil {
		_ = g.fails(ctx, err)
		return
	}
	g.owed = 0
}
