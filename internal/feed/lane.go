package feed

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/tidegate/tidegate/internal/leader"
)

const (
	// pinGroup is the only priority group of a lane's consumer.
	pinGroup = "lane"
	// firstBackoff is the pause before a failed batch is tried again, or a failed
	// pull; it doubles.
	firstBackoff = 20 * time.Millisecond
	// adminTimeout bounds requests to JetStream other than pulls.
	adminTimeout = 5 * time.Second
)

// lane pulls a lane while the member owns it.
type lane struct {
	s      *subscriber
	number int
	name   string // of the consumer

	consumer jetstream.Consumer
	term     leader.Term   // of the feed, in which the batch under way was pulled
	pinned   bool          // the server may hold the lane for this member
	next     uint64        // the consumer sequence that the next batch must begin with; 0 while unknown
	pause    time.Duration // before the next attempt; 0 after a success
}

func (l *lane) run(ctx context.Context) {
	for ctx.Err() == nil {
		if err := l.runOnce(ctx); err != nil {
			l.next = 0
			l.s.g.metrics.failures.Inc()
			l.s.g.cfg.Log.WarnContext(ctx, "a lane failed and is tried again", "service", l.s.g.cfg.Service, "lane", l.number, "error", err)
			l.backOff(ctx)
			continue
		}
		l.pause = 0
	}
	if !l.pinned {
		return
	}
	// Hand over at once instead of after PinTTL.
	call, cancel := context.WithTimeout(context.WithoutCancel(ctx), adminTimeout)
	defer cancel()
	if err := l.s.feed.UnpinConsumer(call, l.name, pinGroup); err != nil {
		l.s.g.cfg.Log.WarnContext(ctx, "a lane is handed over late", "service", l.s.g.cfg.Service, "lane", l.number, "error", err)
	}
}

// backOff waits before the next attempt, longer each time.
func (l *lane) backOff(ctx context.Context) {
	l.pause = min(max(firstBackoff, 2*l.pause), l.s.g.tuning.MaxBackoff)
	timer := time.NewTimer(l.pause)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C:
	}
}

// runOnce pulls a batch, has it handled, and acknowledges it.
func (l *lane) runOnce(ctx context.Context) error {
	// A batch that was pulled is never left behind: unacknowledged records would
	// stay away for AckWait while newer records pass.
	work := context.WithoutCancel(ctx)
	l.term = l.s.g.history.looked()
	batch, err := l.pull(ctx, work)
	if err != nil || len(batch) == 0 {
		return err
	}
	if current, err := l.s.g.history.isCurrent(work, l.term); err != nil || !current {
		return errors.Join(err, l.comesAgain(work)) // it may be of a feed that has forgotten records
	}
	if inOrder, err := l.check(work, batch); err != nil || !inOrder {
		return err
	}
	return l.deliver(ctx, batch)
}

// pull waits for records; it gets no records while another member has the pin. A pull ends
// early only when it is full, so that the first record is asked for alone, and then
// as many as are known to be behind it. It pulls within the second context, and waits
// no longer after the first context ends.
func (l *lane) pull(wait, ctx context.Context) ([]jetstream.Msg, error) {
	batch, err := l.fetch(ctx, 1)
	if err != nil || len(batch) == 0 {
		return nil, err
	}
	if l.s.g.tuning.Linger > 0 {
		return l.linger(wait, ctx, batch)
	}
	meta, err := batch[0].Metadata()
	if err != nil {
		return nil, fmt.Errorf("a record without a place in its lane: %w", err)
	}
	behind := min(meta.NumPending, uint64(l.s.g.tuning.Batch)-1) //nolint:gosec // a batch has 1 or more
	if behind == 0 {
		return batch, nil
	}
	more, err := l.fetch(ctx, int(behind)) //nolint:gosec // less than a batch
	if err != nil {
		return nil, err
	}
	return append(batch, more...), nil
}

// linger pulls until the batch is full, or its first record has waited for as long as
// it may. Meanwhile linger tells the server that it holds the batch, and keeps the pin.
func (l *lane) linger(wait, ctx context.Context, batch []jetstream.Msg) ([]jetstream.Msg, error) {
	over := time.NewTimer(l.s.g.tuning.Linger)
	defer over.Stop()
	for len(batch) < l.s.g.tuning.Batch {
		select {
		case <-over.C:
			return batch, nil
		case <-wait.Done():
			return batch, nil
		default:
		}
		more, err := l.fetch(ctx, l.s.g.tuning.Batch-len(batch))
		if err != nil {
			return nil, err
		}
		batch = append(batch, more...)
		inProgress(batch)
	}
	return batch, nil
}

// inProgress tells the server that a batch is worked on. Not told, it gives the batch
// again, and check notices.
func inProgress(batch []jetstream.Msg) {
	for _, m := range batch {
		_ = m.InProgress() // see above
	}
}

// fetch pulls n records at most.
func (l *lane) fetch(ctx context.Context, n int) ([]jetstream.Msg, error) {
	if l.consumer == nil {
		call, cancel := context.WithTimeout(ctx, adminTimeout)
		defer cancel()
		c, err := l.s.feed.Consumer(call, l.name)
		if err != nil {
			return nil, fmt.Errorf("open the consumer: %w", err)
		}
		l.consumer = c
	}
	fetch, err := l.consumer.Fetch(n, jetstream.FetchPriorityGroup(pinGroup), jetstream.FetchMaxWait(l.s.g.tuning.Poll))
	if err != nil {
		return nil, fmt.Errorf("pull: %w", err)
	}
	batch := make([]jetstream.Msg, 0, n)
	for m := range fetch.Messages() {
		batch = append(batch, m)
	}
	l.pinned = l.pinned || len(batch) > 0
	switch err := fetch.Error(); {
	case err == nil || len(batch) > 0:
		return batch, nil
	case errors.Is(err, jetstream.ErrPinIDMismatch):
		l.pinned, l.next = false, 0
		return nil, nil // another member has the lane for now
	default:
		return nil, fmt.Errorf("pull: %w", err)
	}
}

// check reports whether the batch follows the last acknowledged record. If a member
// was given records before that are not acknowledged yet, the consumer is set back
// to them, and they come again.
func (l *lane) check(ctx context.Context, batch []jetstream.Msg) (bool, error) {
	first, err := batch[0].Metadata()
	if err != nil {
		return false, fmt.Errorf("a record without a place in its lane: %w", err)
	}
	ascending, unbroken, err := order(batch)
	if err != nil {
		return false, err
	}
	if first.Sequence.Consumer == l.next && ascending && unbroken {
		return true, nil
	}
	call, cancel := context.WithTimeout(ctx, adminTimeout)
	defer cancel()
	info, err := l.consumer.Info(call)
	if err != nil {
		return false, fmt.Errorf("look at the consumer: %w", err)
	}
	if ascending && info.NumAckPending == len(batch) {
		return true, nil
	}
	return false, l.reset(call)
}

// comesAgain checks in a new term that the feed has all handled records, and has
// the pulled records given again.
func (l *lane) comesAgain(ctx context.Context) error {
	l.next = 0
	if err := l.s.g.history.look(ctx); err != nil {
		return err
	}
	call, cancel := context.WithTimeout(ctx, adminTimeout)
	defer cancel()
	return l.reset(call)
}

// reset sets the consumer back to the first unacknowledged record.
func (l *lane) reset(ctx context.Context) error {
	l.next = 0
	if _, err := l.s.feed.ResetConsumer(ctx, l.name); err != nil {
		return fmt.Errorf("set the consumer back: %w", err)
	}
	l.s.g.metrics.resets.Inc()
	return nil
}

// order reports whether the records of a batch are in the order of the feed, and whether
// no delivery between them is missing. If the connection breaks during a pull, the server
// may send the rest of the pull to the next connection: then deliveries in between are
// lost, and come again later.
func order(batch []jetstream.Msg) (ascending, unbroken bool, err error) {
	var last *jetstream.MsgMetadata
	ascending, unbroken = true, true
	for _, m := range batch {
		meta, err := m.Metadata()
		if err != nil {
			return false, false, fmt.Errorf("a record without a place in its lane: %w", err)
		}
		if last != nil {
			ascending = ascending && meta.Sequence.Stream > last.Sequence.Stream
			unbroken = unbroken && meta.Sequence.Consumer == last.Sequence.Consumer+1
		}
		last = meta
	}
	return ascending, unbroken, nil
}

// deliver has a batch handled, as often as it takes, and acknowledges it. A
// member that is to stop leaves a batch that fails to its successor.
func (l *lane) deliver(ctx context.Context, batch []jetstream.Msg) error {
	first, err := batch[0].Metadata()
	if err != nil {
		return fmt.Errorf("a record without a place in its lane: %w", err)
	}
	l.s.g.progress.begins(l.number, first.Timestamp)
	defer l.s.g.progress.ends(l.number)
	release := l.hold(batch)
	defer release()
	for failed := false; ; {
		if l.handle(batch) {
			if failed {
				l.s.g.metrics.waiting.Dec()
			}
			return l.acknowledge(context.WithoutCancel(ctx), batch)
		}
		l.s.g.metrics.failures.Inc()
		if !failed {
			failed = true
			l.s.g.metrics.waiting.Inc()
			l.s.g.progress.fails(l.number)
		}
		l.backOff(ctx)
		if ctx.Err() != nil {
			l.s.g.metrics.waiting.Dec()
			l.next = 0
			return nil // a member that stops leaves the batch as it is
		}
	}
}

// hold tells the server that a batch is worked on, until it is released: told
// nothing for AckWait, it gives the batch to another member that pulls.
func (l *lane) hold(batch []jetstream.Msg) (release func()) {
	released, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		ticker := time.NewTicker(l.s.g.tuning.AckWait / 3)
		defer ticker.Stop()
		for {
			select {
			case <-released:
				return
			case <-ticker.C:
				inProgress(batch)
			}
		}
	}()
	return func() {
		close(released)
		<-ended
	}
}

// handle gives a batch to the router and waits for its verdict.
func (l *lane) handle(batch []jetstream.Msg) bool {
	m := message.NewMessage(fmt.Sprintf("%s lane %d", l.s.g.cfg.Service, l.number), nil)
	m.SetContext(context.WithValue(l.s.handling, batchKey{}, pulled{lane: l.number, messages: batch}))
	l.s.out <- m // the router reads until out is closed
	select {
	case <-m.Acked():
		return true
	case <-m.Nacked():
		return false
	}
}

// acknowledge says that a batch is done, and waits for the server to know.
func (l *lane) acknowledge(ctx context.Context, batch []jetstream.Msg) error {
	last := batch[len(batch)-1]
	meta, err := last.Metadata()
	if err != nil {
		return fmt.Errorf("a record without a place in its lane: %w", err)
	}
	if current, err := l.s.g.history.handled(ctx, l.term, l.number, meta); err != nil || !current {
		return errors.Join(err, l.comesAgain(ctx)) // the watermarks refuse records that were applied
	}
	for _, m := range batch[:len(batch)-1] {
		if err := m.Ack(); err != nil {
			return fmt.Errorf("acknowledge: %w", err)
		}
	}
	call, cancel := context.WithTimeout(ctx, adminTimeout)
	defer cancel()
	if err := last.DoubleAck(call); err != nil {
		return fmt.Errorf("acknowledge: %w", err)
	}
	l.next = meta.Sequence.Consumer + 1
	return nil
}
