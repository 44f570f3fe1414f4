package rollback

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/nats-io/nuid"

	"github.com/tidegate/tidegate/internal/leader"
)

// What became of a write. Any other error says that its outcome is unknown.
var (
	// ErrRefused: the key's last revision is not the one that was expected. Nothing
	// was written.
	ErrRefused = errors.New("the key has another revision")
	// ErrNotWritten: nothing was written. The error says why.
	ErrNotWritten = errors.New("not written")
	// ErrUncertain: it was written, and then NATS was interrupted, so that it may be
	// forgotten by now.
	ErrUncertain = errors.New("written, but NATS was interrupted")
)

// maxWrites is how many writes go in one batch. More wait for the next.
const maxWrites = 500

// headerOperation marks the message that takes a key away.
const (
	headerOperation = "KV-Operation"
	operationPurge  = "PURGE"
)

// write is one that waits or is under way.
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
	wake chan struct{} // holds one while writes wait

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

// take removes the writes of the next batch: of each key one.
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

// Write stores a key's value if the key's last revision is still the given one, 0
// for none. It returns the new revision, and the epoch that is certain to hold after
// it: see Certain. Writes of a node that come together share one batch. A call that
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
		return 0, 0, w.err
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

// send publishes writes as one batch, which ends with the node's beat. Where one of
// several is refused, so are all, and each is sent alone.
func (g *Guard) send(ctx context.Context, batch []*write) {
	messages := make([]*nats.Msg, 0, len(batch)+1)
	for _, w := range batch {
		messages = append(messages, w.message)
	}
	last, err := g.publish(ctx, messages, "")
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

// refused tells writes that failed their own condition from those that failed the
// beat's.
func (g *Guard) refused(ctx context.Context, batch []*write) {
	state, err := g.find(ctx)
	switch {
	case err == nil && state == foundPending: // an earlier beat was stored though its answer was lost
		g.send(ctx, batch)
	case err == nil && state == foundSame && len(batch) == 1:
		batch[0].end(0, ErrRefused)
	case err == nil && state == foundSame:
		for _, w := range batch {
			g.send(ctx, []*write{w})
		}
	default:
		if err == nil { // the look that follows ends the epoch
			err = g.look(ctx)
		}
		for _, w := range batch {
			w.end(0, errors.Join(fmt.Errorf("%w: the stream %s is not as this node left it", ErrNotWritten, g.stream), err))
		}
	}
}

// looksAgain notes the term after a batch, where the connection alone does not tell.
func (g *Guard) looksAgain(ctx context.Context) {
	g.mu.Lock()
	single := g.seen.Server != ""
	g.mu.Unlock()
	if !single {
		term, _ := g.term(ctx) // none where it fails: the next look will tell
		g.sees(term)
	}
}

// publish stores messages and the next beat behind them: all or none. The error is
// leader.ErrFenced where a message, or the beat, expected another revision.
func (g *Guard) publish(ctx context.Context, messages []*nats.Msg, operation string) (last uint64, _ error) {
	nonce := nuid.Next()
	m := nats.NewMsg(g.beat.subject)
	m.Data = []byte(nonce)
	m.Header.Set(jetstream.ExpectedLastSubjSeqHeader, strconv.FormatUint(g.beat.sequence, 10))
	if operation != "" {
		m.Header.Set(headerOperation, operation)
	}
	call, cancel := g.request(ctx)
	defer cancel()
	batch, err := leader.Publish(call, g.cfg.NATS, append(messages, m))
	var refused *jetstream.APIError
	switch {
	case err == nil:
		g.acknowledged(nonce, batch.Last)
	case errors.As(err, &refused) || errors.Is(err, leader.ErrFull):
		err = fmt.Errorf("%w: %w", ErrNotWritten, err)
	case !errors.Is(err, leader.ErrFenced):
		g.pending[nonce] = true
	}
	return batch.Last, err
}

// acknowledged notes the node's last beat. Earlier ones without an answer can be
// stored no more, because they expect another revision.
func (g *Guard) acknowledged(nonce string, sequence uint64) {
	g.beat.nonce, g.beat.sequence, g.beat.at, g.beat.epoch = nonce, sequence, g.cfg.Now(), g.cfg.Epochs.Current()
	clear(g.pending)
}

// renew writes a beat alone.
func (g *Guard) renew(ctx context.Context) error {
	_, err := g.publish(ctx, nil, "")
	return err
}

// fresh begins with another key.
func (g *Guard) fresh() {
	g.beats++
	g.beat = beat{subject: g.beatPrefix() + g.node + "." + strconv.Itoa(g.beats), epoch: g.cfg.Epochs.Current()}
	g.pending = map[string]bool{}
}

// leave writes what waits, takes the beat away and tells the others.
func (g *Guard) leave(ctx context.Context) {
	g.queue.mu.Lock()
	g.queue.closed = true
	g.queue.mu.Unlock()
	for batch := g.queue.take(); len(batch) > 0; batch = g.queue.take() {
		g.send(ctx, batch)
	}
	if g.beat.sequence > 0 {
		_, _ = g.publish(ctx, nil, operationPurge) // otherwise others wait for it once
	}
	g.tell(true)
	_ = g.cfg.NATS.FlushTimeout(g.tuning.Timeout) // what the others do not hear costs them a wait
}
