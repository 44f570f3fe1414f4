package relay

import (
	"context"
	"maps"
	"time"

	"github.com/tidegate/tidegate/pkg/events"
)

// watch keeps readers on the stream shards that are the relay's, whatever shards
// and relays come and go.
type watch struct {
	relay *Relay

	// owned by run
	survey  survey
	readers readers
	house   housekeeper
}

func newWatch(r *Relay) *watch {
	return &watch{
		relay:   r,
		survey:  survey{relay: r, members: r.members, living: []string{r.cfg.Member}, done: map[source]bool{}},
		readers: readers{relay: r, running: map[source]*running{}},
		house:   housekeeper{relay: r, purged: map[string]uint64{}, unseen: map[events.Kind]waiting{}},
	}
}

func (w *watch) run(ctx context.Context) {
	surveys := time.NewTicker(w.relay.tuning.Survey)
	defer surveys.Stop()
	purges := time.NewTicker(w.relay.tuning.Purge)
	defer purges.Stop()
	for first := true; ; {
		w.look(ctx)
		if w.runOnce(ctx) && first {
			first = false
			close(w.relay.ready)
			w.show(ctx)
		}
		select {
		case <-ctx.Done():
			w.readers.stop()
			w.survey.leave()
			return
		case <-w.relay.ended:
		case <-w.relay.fills:
			w.purge(ctx)
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
	w.house.keep(ctx, w.survey.streams)
}

// purges reports whether purging is this relay's part.
func (w *watch) purges() bool { return w.survey.owns("purge") }

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

// runOnce finds the running relays and the stream shards, and starts and stops
// readers. Without an answer all stays as it is: markers guard the feed.
func (w *watch) runOnce(ctx context.Context) bool {
	w.survey.meet(ctx)
	err := w.survey.list(ctx)
	if err == nil {
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

// remember looks whether the feed is as this relay left it. In a new term the
// housekeeper begins again: consumers look first.
func (w *watch) remember(ctx context.Context) error {
	isNew, err := w.survey.remember(ctx)
	if err != nil || !isNew {
		return err
	}
	w.house.term, w.house.since, w.house.seen = w.survey.term, w.relay.cfg.Now(), nil
	clear(w.house.purged)
	return nil
}

// assign starts and stops readers.
func (w *watch) assign(ctx context.Context) error {
	for at, r := range w.readers.ended() {
		if r.done && r.reader.term == w.survey.term {
			w.survey.done[at] = true
		}
	}
	mine, err := w.mine(ctx)
	if err != nil {
		return err
	}
	w.readers.stopAllBut(mine)
	for at, partly := range mine {
		if w.readers.running[at] != nil {
			continue
		}
		if joined, err := w.survey.join(ctx, at); err != nil {
			return err
		} else if joined {
			w.readers.start(ctx, at, w.survey.term, partly)
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
		passed, err := readable(w.survey.streams, func(at source) (bool, error) { return w.isPassed(ctx, at) })
		if err != nil {
			return nil, err
		}
		for _, at := range passed {
			all[at] = true
		}
	}
	open, err := readable(w.survey.streams, func(at source) (bool, error) { return w.isDone(ctx, at) })
	if err != nil {
		return nil, err
	}
	for _, at := range open {
		all[at] = false
	}
	maps.DeleteFunc(all, func(at source, _ bool) bool { return !w.survey.owns(at.shard) })
	return all, nil
}

// isPassed reports whether all but buckets of a stream shard was read to its end, by
// whichever relay.
func (w *watch) isPassed(ctx context.Context, at source) (bool, error) {
	if r := w.readers.running[at]; r != nil || w.survey.done[at] {
		return w.survey.done[at] || r.reader.passed.Load(), nil
	}
	call, cancel := w.relay.request(ctx)
	defer cancel()
	m, err := loadMarker(call, w.relay.cfg.NATS, at)
	return m.passed(), err
}

// isDone reports whether a stream shard was read to its end, by whichever relay.
func (w *watch) isDone(ctx context.Context, at source) (bool, error) {
	if w.survey.done[at] || w.readers.running[at] != nil {
		return w.survey.done[at], nil
	}
	call, cancel := w.relay.request(ctx)
	defer cancel()
	m, err := loadMarker(call, w.relay.cfg.NATS, at)
	if err != nil {
		return false, err
	}
	if m.Closed {
		w.survey.done[at] = true
	}
	return m.Closed, nil
}
