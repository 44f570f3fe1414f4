package relay

import (
	"context"
	"errors"
	"maps"
	"slices"
	"time"

	"github.com/sourcegraph/conc"

	"github.com/tidegate/tidegate/internal/consume"
	"github.com/tidegate/tidegate/internal/leader"
)

// watch keeps readers on the stream shards that are the relay's, whatever shards
// and relays come and go.
type watch struct {
	relay   *Relay
	members *consume.Members

	// owned by run
	living  []string
	streams []stream
	running map[source]*running
	done    map[source]bool // stream shards that were read to their end
	term    leader.Term     // of the feed, in which done was seen
	readers conc.WaitGroup
	house   housekeeper
}

// running is a reader that was started.
type running struct {
	stop  context.CancelFunc
	ended chan struct{}
	term  leader.Term
	done  bool // it came to the shard's end; written before ended is closed
}

func (w *watch) run(ctx context.Context) {
	w.house.relay = w.relay
	surveys := time.NewTicker(w.relay.tuning.Survey)
	defer surveys.Stop()
	purges := time.NewTicker(w.relay.tuning.Purge)
	defer purges.Stop()
	for first := true; ; {
		if w.survey(ctx) && first {
			first = false
			close(w.relay.ready)
		}
		select {
		case <-ctx.Done():
			w.leave()
			return
		case <-w.relay.ended:
		case <-surveys.C:
		case <-purges.C:
			if consume.Owner("purge", w.living) == w.relay.cfg.Member {
				w.house.keep(ctx, w.streams)
			}
		}
	}
}

// survey looks who lives and which stream shards there are, and starts and stops
// readers. Without an answer all stays as it is: markers guard the feed.
func (w *watch) survey(ctx context.Context) bool {
	w.meet(ctx)
	streams, err := w.relay.store.streams(ctx)
	if err == nil && len(streams) == 0 {
		err = errors.New("the table has no stream: make it with tidegate table create, or enable its stream with new and old images")
	}
	if err == nil {
		w.streams = streams
		w.forget()
		if err = w.remember(ctx); err == nil {
			err = w.assign(ctx)
		}
	}
	if err != nil && ctx.Err() == nil {
		w.relay.metrics.failures.Inc()
		w.relay.cfg.Log.ErrorContext(ctx, "the table's streams or the feed cannot be seen: readers stay as they are", "table", w.relay.cfg.Table, "error", err)
	}
	return err == nil
}

// remember looks whether the feed is as this relay left it. In a new term it forgets
// what was read to its end: a parent's end may be forgotten, and its records come
// before those of its children.
func (w *watch) remember(ctx context.Context) error {
	term, err := w.relay.history.look(ctx)
	if err != nil || term == w.term {
		return err
	}
	w.term = term
	clear(w.done)
	w.house.term, w.house.last, w.house.purged = term, 0, 0 // consumers look first
	return nil
}

// meet says that the relay lives and asks who else does.
func (w *watch) meet(ctx context.Context) {
	call, cancel := context.WithTimeout(ctx, w.relay.tuning.MemberTTL)
	defer cancel()
	living, err := w.members.Beat(call)
	switch {
	case err == nil:
		w.living = living
	case ctx.Err() == nil:
		w.relay.cfg.Log.WarnContext(ctx, "the other relays cannot be seen: each goes on with what it has", "error", err)
	}
}

// forget drops what is known of stream shards that are listed no more.
func (w *watch) forget() {
	listed := map[source]bool{}
	for _, st := range w.streams {
		for _, s := range st.shards {
			listed[source{st.arn, st.label, s.id}] = true
		}
	}
	maps.DeleteFunc(w.done, func(at source, _ bool) bool { return !listed[at] })
}

// assign starts and stops readers.
func (w *watch) assign(ctx context.Context) error {
	for at, r := range w.running {
		select {
		case <-r.ended:
			if r.done && r.term == w.term {
				w.done[at] = true
			}
			delete(w.running, at)
		default:
		}
	}
	open, err := readable(w.streams, func(at source) (bool, error) { return w.isDone(ctx, at) })
	if err != nil {
		return err
	}
	mine := map[source]bool{}
	for _, at := range open {
		if consume.Owner(at.shard, w.living) == w.relay.cfg.Member {
			mine[at] = true
		}
	}
	for at, r := range w.running {
		if !mine[at] {
			r.stop()
		}
	}
	for at := range mine {
		if w.running[at] != nil {
			continue
		}
		if err := w.inherit(ctx, at); err != nil {
			return err
		}
		w.start(ctx, at)
	}
	w.relay.metrics.shards.Set(float64(len(mine)))
	return nil
}

// isDone reports whether a stream shard was read to its end, by whichever relay.
func (w *watch) isDone(ctx context.Context, at source) (bool, error) {
	if w.done[at] || w.running[at] != nil {
		return w.done[at], nil
	}
	call, cancel := w.relay.request(ctx)
	defer cancel()
	m, err := loadMarker(call, w.relay.cfg.NATS, at)
	if err != nil {
		return false, err
	}
	if m.Closed {
		w.done[at] = true
	}
	return m.Closed, nil
}

// inherit looks after the parent of a stream shard that is about to be read: one
// that went before it was read to its end has taken changes with it.
func (w *watch) inherit(ctx context.Context, at source) error {
	parent := parentOf(w.streams, at)
	if parent.shard == "" {
		return nil
	}
	call, cancel := w.relay.request(ctx)
	defer cancel()
	m, err := loadMarker(call, w.relay.cfg.NATS, parent)
	if err != nil || m.number == 0 || m.Closed {
		return err
	}
	closed := m.checkpoint
	closed.Closed = true
	if err := w.relay.history.check(call, w.term); err != nil {
		return err
	}
	batch, err := publish(call, w.relay.cfg.NATS, nil, closed, m.number)
	if err != nil {
		return err
	}
	w.relay.history.acknowledged(batch)
	w.relay.lost(ctx, parent.shard, m.Sequence, nil)
	return nil
}

func (w *watch) start(ctx context.Context, at source) {
	ctx, cancel := context.WithCancel(ctx)
	r := &running{stop: cancel, ended: make(chan struct{}), term: w.term}
	w.running[at] = r
	w.readers.Go(func() {
		defer func() {
			close(r.ended)
			select {
			case w.relay.ended <- struct{}{}:
			default: // a survey is due in any case
			}
		}()
		defer cancel()
		r.done = (&reader{relay: w.relay, at: at, term: w.term}).run(ctx)
	})
}

// leave stops all readers and leaves the group, so that others take over at once.
func (w *watch) leave() {
	for _, at := range slices.Collect(maps.Keys(w.running)) {
		w.running[at].stop()
	}
	w.readers.Wait()
	ctx, cancel := context.WithTimeout(context.Background(), w.relay.tuning.MemberTTL)
	defer cancel()
	if err := w.members.Leave(ctx); err != nil {
		w.relay.cfg.Log.Warn("the other relays will take over when this one's time is up", "error", err)
	}
}
