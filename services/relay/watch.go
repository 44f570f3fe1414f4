package relay

import (
	"context"
	"errors"
	"maps"
	"slices"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/sourcegraph/conc"

	"github.com/tidegate/tidegate/internal/feed"
	"github.com/tidegate/tidegate/internal/leader"
	"github.com/tidegate/tidegate/pkg/events"
)

// watch keeps readers on the stream shards that are the relay's, whatever shards
// and relays come and go.
type watch struct {
	relay   *Relay
	members *feed.Members

	// owned by run
	living  []string
	streams []stream
	running map[source]*running
	done    map[source]bool // stream shards that were read to their end
	term    leader.Term     // of the feed, in which done was seen
	known   bool            // the feed has markers of the table's streams
	readers conc.WaitGroup
	house   housekeeper
}

// running is a reader that was started.
type running struct {
	stop   context.CancelFunc
	reader *reader
	ended  chan struct{}
	done   bool // it came to the shard's end; written before ended is closed
}

func (w *watch) run(ctx context.Context) {
	w.house = housekeeper{relay: w.relay, purged: map[string]uint64{}, unseen: map[events.Kind]waiting{}}
	surveys := time.NewTicker(w.relay.tuning.Survey)
	defer surveys.Stop()
	purges := time.NewTicker(w.relay.tuning.Purge)
	defer purges.Stop()
	for first := true; ; {
		w.look(ctx)
		if w.survey(ctx) && first {
			first = false
			close(w.relay.ready)
			w.show(ctx)
		}
		select {
		case <-ctx.Done():
			w.leave()
			return
		case <-w.relay.ended:
		case <-surveys.C:
			if w.relay.room.isHalfFull() {
				w.purge(ctx)
			}
		case <-purges.C:
			w.purge(ctx)
		}
	}
}

// look asks how full the feed is. Without an answer the relay relies on the last answer.
func (w *watch) look(ctx context.Context) {
	if err := w.house.look(ctx); err != nil && ctx.Err() == nil {
		w.relay.metrics.failures.Inc()
		w.relay.cfg.Log.WarnContext(ctx, "NATS does not tell how full the feed is", "error", err)
	}
}

// purge has the feed purged, if that is this relay's part.
func (w *watch) purge(ctx context.Context) {
	if !w.purges() {
		w.house.hide()
		return
	}
	w.house.keep(ctx, w.streams)
}

// purges reports whether purging is this relay's part.
func (w *watch) purges() bool { return feed.Owner("purge", w.living) == w.relay.cfg.Member }

// show sets the gauges of the kinds once, so that they are there before the first purge.
func (w *watch) show(ctx context.Context) {
	if !w.purges() {
		return
	}
	if err := w.house.showKinds(ctx); err != nil && ctx.Err() == nil {
		w.relay.metrics.failures.Inc()
		w.relay.cfg.Log.WarnContext(ctx, "the sizes of the kinds are shown later", "error", err)
	}
}

// survey finds the running relays and the stream shards, and starts and stops
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
// the finished shards: a parent's end may be forgotten, and its records come
// before the records of its children.
func (w *watch) remember(ctx context.Context) error {
	term, err := w.relay.history.look(ctx)
	if err != nil || term == w.term {
		return err
	}
	w.term = term
	clear(w.done)
	w.known = false
	w.house.term, w.house.seen = term, nil // consumers look first
	clear(w.house.purged)
	return nil
}

// meet sends a heartbeat and asks for the running relays.
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

// forget drops the state of stream shards that are listed no more.
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
			if r.done && r.reader.term == w.term {
				w.done[at] = true
			}
			delete(w.running, at)
		default:
		}
	}
	mine, err := w.mine(ctx)
	if err != nil {
		return err
	}
	for at, r := range w.running {
		if partly, ok := mine[at]; !ok || partly != r.reader.partly {
			r.stop()
		}
	}
	for at, partly := range mine {
		if w.running[at] != nil {
			continue
		}
		if joined, err := w.join(ctx, at); err != nil {
			return err
		} else if joined {
			w.start(ctx, at, partly)
		}
	}
	w.relay.metrics.shards.Set(float64(len(mine)))
	return nil
}

// mine returns the stream shards that the relay reads, and of each whether buckets of
// its parent wait, so that only the other kinds may be read.
func (w *watch) mine(ctx context.Context) (map[source]bool, error) {
	all := map[source]bool{}
	if !w.relay.room.forBuckets() {
		passed, err := readable(w.streams, func(at source) (bool, error) { return w.isPassed(ctx, at) })
		if err != nil {
			return nil, err
		}
		for _, at := range passed {
			all[at] = true
		}
	}
	open, err := readable(w.streams, func(at source) (bool, error) { return w.isDone(ctx, at) })
	if err != nil {
		return nil, err
	}
	for _, at := range open {
		all[at] = false
	}
	maps.DeleteFunc(all, func(at source, _ bool) bool { return feed.Owner(at.shard, w.living) != w.relay.cfg.Member })
	return all, nil
}

// isPassed reports whether all but buckets of a stream shard was read to its end, by
// whichever relay.
func (w *watch) isPassed(ctx context.Context, at source) (bool, error) {
	if r := w.running[at]; r != nil || w.done[at] {
		return w.done[at] || r.reader.passed.Load(), nil
	}
	call, cancel := w.relay.request(ctx)
	defer cancel()
	m, err := loadMarker(call, w.relay.cfg.NATS, at)
	return m.passed(), err
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

// mark publishes a marker that no reader does, and messages before it, in the term
// in which the watch looked at the feed.
func (w *watch) mark(ctx context.Context, messages []*nats.Msg, mark checkpoint, fence uint64) error {
	if err := w.relay.history.check(ctx, w.term); err != nil {
		return err
	}
	batch, err := publish(ctx, w.relay.cfg.NATS, messages, mark, fence)
	if err != nil {
		return err
	}
	w.relay.history.acknowledged(batch)
	return nil
}

func (w *watch) start(ctx context.Context, at source, partly bool) {
	ctx, cancel := context.WithCancel(ctx)
	r := &running{stop: cancel, ended: make(chan struct{}), reader: &reader{relay: w.relay, at: at, term: w.term, partly: partly}}
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
		r.done = r.reader.run(ctx)
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
