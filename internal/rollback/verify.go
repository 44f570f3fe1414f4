package rollback

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/tidegate/tidegate/internal/leader"
	"github.com/tidegate/tidegate/internal/process"
)

// verifier finds out whether the stream was rolled back. It is owned by Guard.Run.
type verifier struct {
	link    *link
	beats   *beats
	peers   *peers
	epoch   *epochSync
	now     func() time.Time
	log     *slog.Logger
	metrics *metrics
	renew   time.Duration // the age at which a beat is renewed
	maxAge  time.Duration // of the stream's messages; 0: they do not expire
	ready   chan struct{} // is closed by the first look
}

// look finds out whether the stream still has this node's beat, and with it all
// that the node wrote before. A look within a single term counts for it.
func (v *verifier) look(ctx context.Context) error {
	ctx = context.WithoutCancel(ctx)
	term, err := v.link.term(ctx)
	if err != nil {
		v.peers.sees(leader.Term{})
		return err
	}
	v.peers.sees(term)
	if err := v.verify(ctx, term); err != nil {
		return err
	}
	if v.peers.hasLooked(term) && !v.epoch.isDue() {
		return nil
	}
	call, cancel := v.link.request(ctx)
	defer cancel()
	if err := v.epoch.refresh(call); err != nil {
		return err
	}
	return v.confirm(ctx, term)
}

// confirm makes a look count, if the term is still the same.
func (v *verifier) confirm(ctx context.Context, term leader.Term) error {
	if now, err := v.link.term(ctx); err != nil || now != term {
		return errors.Join(err, leader.ErrInterrupted)
	}
	v.peers.looks(term)
	select {
	case <-v.ready:
	default:
		close(v.ready)
	}
	return nil
}

// verify finds out whether the beat is there, renews an old beat, and handles
// the consequences of a missing beat.
func (v *verifier) verify(ctx context.Context, term leader.Term) error {
	state, err := v.beats.find(ctx)
	if err != nil {
		return err
	}
	age := v.now().Sub(v.beats.last.at)
	switch {
	case state != foundOther:
		if v.beats.last.sequence > 0 && age < v.renew {
			return nil
		}
		return v.beats.renew(ctx)
	case v.maxAge > 0 && age > v.maxAge-v.renew:
		v.beats.fresh() // it expired, and so did all that was written before it
		return v.beats.renew(ctx)
	}
	return v.doubt(ctx, term)
}

// doubt tells a rollback from a leader that is behind, which a server may believe
// to be for a while after the others chose another. A beat under a new key is
// acknowledged by a quorum alone; the leader that has it has all before it.
func (v *verifier) doubt(ctx context.Context, term leader.Term) error {
	old, pending := v.beats.last, v.beats.pending
	restore := func() { v.beats.last, v.beats.pending = old, pending }
	v.beats.fresh()
	if err := v.beats.renew(ctx); err != nil {
		restore()
		return err
	}
	next := v.beats.last
	if state, err := v.beats.find(ctx); err != nil || state != foundSame {
		restore()
		return errors.Join(err, leader.ErrInterrupted)
	}
	restore()
	state, err := v.beats.find(ctx)
	if err != nil {
		return err
	}
	if now, err := v.link.term(ctx); err != nil || now != term {
		return errors.Join(err, leader.ErrInterrupted)
	}
	v.beats.last, v.beats.pending = next, map[string]bool{}
	if state == foundOther {
		v.rolledBack(ctx, old)
	}
	return nil
}

// rolledBack ends the epoch in which the lost beat was written. This node and the nodes
// that hear it stop giving credits to its leases at once, the table follows.
func (v *verifier) rolledBack(ctx context.Context, lost beat) {
	v.metrics.rollbacks.Inc()
	v.log.ErrorContext(process.Unsampled(ctx), "NATS has forgotten settlements that it had acknowledged: leases from before get no credit any more",
		"stream", v.link.stream, "lost", lost.sequence, "epoch", lost.epoch+1)
	v.beats.last.epoch = v.epoch.begin(lost.epoch + 1)
	v.peers.tell(false)
}
