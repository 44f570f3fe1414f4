package rollback

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"sync"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/tidegate/tidegate/internal/leader"
)

// Outcomes of a write. Any other error says that the outcome is unknown.
var (
	// ErrRefused: the key's last revision is not the expected revision. Nothing
	// was written.
	ErrRefused = errors.New("the key has another revision")
	// ErrNotWritten: nothing was written. The error says why.
	ErrNotWritten = errors.New("not written")
	// ErrUncertain: it was written, and then NATS was interrupted, so that it may be
	// forgotten by now.
	ErrUncertain = errors.New("written, but NATS was interrupted")
)

const (
	// maxWrites is the number of writes of a batch. More wait for the next.
	maxWrites = 500
	// fewWrites are published separately: a batch costs the server as much as about
	// ten messages that it syncs.
	fewWrites = 8
)

// write is a write that waits or is under way.
type write struct {
	message  *nats.Msg
	done     chan struct{} // closed when sequence and err are set
	sequence uint64
	err      error
}

func (w *write) end(sequence uint64, err error) {
	w.sequence, w.err = sequence, err
	close(w.done)
}

// queue holds the writes that wait.
type queue struct {
	wake chan struct{} // holds a signal while writes wait

	mu      sync.Mutex
	waiting []*write // guarded by mu
	closed  bool     // guarded by mu
}

func (q *queue) add(w *write) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.closed {
		return false
	}
	q.waiting = append(q.waiting, w)
	q.remind()
	return true
}

func (q *queue) remind() {
	select {
	case q.wake <- struct{}{}:
	default:
	}
}

// remove reports whether a write still waited; it does no more.
func (q *queue) remove(w *write) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	for i := range q.waiting {
		if q.waiting[i] == w {
			q.waiting = append(q.waiting[:i], q.waiting[i+1:]...)
			return true
		}
	}
	return false
}

// take removes the writes of the next batch, with a single write of each key.
func (q *queue) take() (batch []*write) {
	q.mu.Lock()
	defer q.mu.Unlock()
	var left []*write
	keys := map[string]bool{}
	for _, w := range q.waiting {
		if len(batch) == maxWrites || keys[w.message.Subject] {
			left = append(left, w)
			continue
		}
		keys[w.message.Subject] = true
		batch = append(batch, w)
	}
	if q.waiting = left; len(left) > 0 {
		q.remind()
	}
	return batch
}

// Write stores a key's value if the key's last revision is still the given revision, 0
// for a new key. It returns the new revision, and the epoch that is certain to hold after
// it: see Certain. Writes of a node that come together share a batch. A call that
// ends with ctx before its write was sent has ErrNotWritten.
func (g *Guard) Write(ctx context.Context, key string, value []byte, revision uint64) (sequence uint64, epoch int64, err error) {
	m := nats.NewMsg(subjectOf(g.cfg.Bucket, key))
	m.Data = value
	m.Header.Set(jetstream.ExpectedLastSubjSeqHeader, strconv.FormatUint(revision, 10))
	w := &write{message: m, done: make(chan struct{})}
	if !g.queue.add(w) {
		return 0, 0, fmt.Errorf("%w: the node stops", ErrNotWritten)
	}
	select {
	case <-w.done:
	case <-ctx.Done():
		if g.queue.remove(w) {
			return 0, 0, fmt.Errorf("%w: %w", ErrNotWritten, ctx.Err())
		}
		return 0, 0, fmt.Errorf("the write is under way: %w", ctx.Err())
	}
	if w.err != nil {
		return w.sequence, 0, w.err
	}
	if epoch, err = g.Certain(ctx); err != nil {
		return w.sequence, 0, fmt.Errorf("%w: %w", ErrUncertain, err)
	}
	return w.sequence, epoch, nil
}

// write sends the next batch.
func (g *Guard) write(ctx context.Context) {
	if batch := g.queue.take(); len(batch) > 0 {
		g.send(ctx, batch)
	}
}

// send publishes writes, and the node's beat behind them.
func (g *Guard) send(ctx context.Context, batch []*write) {
	if len(batch) <= fewWrites {
		g.sendEach(ctx, batch)
		return
	}
	messages := make([]*nats.Msg, 0, len(batch)+1)
	for _, w := range batch {
		messages = append(messages, w.message)
	}
	last, err := g.beats.publish(ctx, messages)
	if errors.Is(err, leader.ErrFenced) {
		g.refused(ctx, batch)
		return
	}
	if err == nil {
		g.looksAgain(ctx)
	}
	for i, w := range batch {
		w.end(last-uint64(len(batch)-i), err) //nolint:gosec // a batch is short
	}
}

// refused sends the writes of a batch again that was refused as a whole: each separately,
// or at once if the beat was refused because an earlier beat was stored
// though its answer was lost.
func (g *Guard) refused(ctx context.Context, batch []*write) {
	switch state, err := g.beats.find(ctx); {
	case err == nil && state == foundPending:
		g.send(ctx, batch)
	case err == nil && state == foundSame:
		for few := range slices.Chunk(batch, fewWrites) {
			g.sendEach(ctx, few)
		}
	default:
		if err == nil {
			err = g.verifier.look(ctx) // it ends the epoch
		}
		for _, w := range batch {
			w.end(0, errors.Join(fmt.Errorf("%w: the stream %s is not as this node left it", ErrNotWritten, g.link.stream), err))
		}
	}
}

// sendEach publishes writes in sequence without waiting in between. The beat
// comes last: once it is acknowledged, it stands for the writes before it too.
func (g *Guard) sendEach(ctx context.Context, few []*write) {
	futures := make([]jetstream.PubAckFuture, len(few))
	for i, w := range few {
		leader.Alone(w.message)
		var err error
		if futures[i], err = g.link.js.PublishMsgAsync(w.message); err != nil {
			w.end(0, fmt.Errorf("publish: %w", err))
		}
	}
	err := g.beats.renew(ctx)
	if errors.Is(err, leader.ErrFenced) {
		if state, lost := g.beats.find(ctx); lost == nil && state == foundPending {
			err = g.beats.renew(ctx)
		}
	}
	switch {
	case err == nil:
		g.looksAgain(ctx)
	case errors.Is(err, leader.ErrFenced):
		err = errors.Join(err, g.verifier.look(ctx)) // it ends the epoch, or finds the leader behind
	}
	call, cancel := g.link.request(ctx)
	defer cancel()
	for i, w := range few {
		if futures[i] != nil {
			w.end(outcome(call, futures[i], err))
		}
	}
}

// outcome is the result of a write that was published alone; beat is the result of
// the beat behind it.
func outcome(ctx context.Context, of jetstream.PubAckFuture, beat error) (uint64, error) {
	var refused *jetstream.APIError
	select {
	case ack := <-of.Ok():
		if beat != nil {
			return ack.Sequence, fmt.Errorf("%w: the node's beat: %w", ErrUncertain, beat)
		}
		return ack.Sequence, nil
	case err := <-of.Err():
		switch {
		case leader.IsFenced(err):
			return 0, ErrRefused
		case errors.As(err, &refused):
			return 0, fmt.Errorf("%w: %w", ErrNotWritten, err)
		}
		return 0, fmt.Errorf("publish: %w", err)
	case <-ctx.Done():
		return 0, fmt.Errorf("publish: %w", ctx.Err())
	}
}

// looksAgain notes the term after a batch, where the connection alone does not tell.
func (g *Guard) looksAgain(ctx context.Context) {
	if !g.peers.seesSingle() {
		term, _ := g.link.term(ctx) // the zero Term if it fails: the next look finds out
		g.peers.sees(term)
	}
}

// leave writes the waiting records, takes the beat away and tells the others.
func (g *Guard) leave(ctx context.Context) {
	g.queue.mu.Lock()
	g.queue.closed = true
	g.queue.mu.Unlock()
	for batch := g.queue.take(); len(batch) > 0; batch = g.queue.take() {
		g.send(ctx, batch)
	}
	g.beats.purge(ctx)
	g.peers.tell(true)
	_ = g.cfg.NATS.FlushTimeout(g.tuning.Timeout) // a report that the others miss costs them a wait
}
