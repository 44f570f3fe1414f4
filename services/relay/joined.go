package relay

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/tidegate/tidegate/internal/leader"
	"github.com/tidegate/tidegate/pkg/events"
)

// recordsKept is how long DynamoDB keeps the records of a stream.
const recordsKept = 24 * time.Hour

// join checks, before a stream shard is read, that its beginning joins the records that were
// read before. It counts and logs a loss once, whichever relays run: the loss is
// recorded by a marker. It reports false if another relay was faster; the caller
// asks again later.
func (w *watch) join(ctx context.Context, at source) (bool, error) {
	call, cancel := w.relay.request(ctx)
	defer cancel()
	err := w.joinParent(call, at)
	if errors.Is(err, leader.ErrFenced) {
		return false, nil
	}
	return err == nil, err
}

func (w *watch) joinParent(ctx context.Context, at source) error {
	parent, listed := parentOf(w.streams, at)
	var before marker
	if parent.shard != "" {
		var err error
		if before, err = loadMarker(ctx, w.relay.cfg.NATS, parent); err != nil {
			return err
		}
	}
	if parent.shard != "" && !listed && before.begun && !before.Closed {
		return w.loseRest(ctx, parent, before)
	}
	own, err := loadMarker(ctx, w.relay.cfg.NATS, at)
	if err != nil || own.begun {
		return err // reading has begun, which was decided then
	}
	switch known, err := w.knows(ctx, at.arn); {
	case err != nil:
		return err
	case !known:
		return w.adopt(ctx, at)
	case parent.shard == "":
		return nil // a shard of the stream's beginning
	case !before.begun, w.relay.cfg.Now().Sub(before.at) > recordsKept:
		// The parent was never read, or so long ago that DynamoDB may have dropped
		// the oldest records of its child.
		return w.loseBeginning(ctx, at, parent, own)
	}
	return nil
}

// loseRest tells that a stream shard is gone which was not read to its end.
func (w *watch) loseRest(ctx context.Context, parent source, m marker) error {
	closed := m.checkpoint
	closed.Closed = true
	if err := w.mark(ctx, nil, closed, m.number); err != nil {
		return err
	}
	w.relay.lost(ctx, parent.shard, m.Sequence, nil)
	return nil
}

// loseBeginning tells that changes between the parent and a stream shard, or the
// first changes of the shard, may be gone.
func (w *watch) loseBeginning(ctx context.Context, at, parent source, own marker) error {
	if err := w.mark(ctx, nil, checkpoint{Stream: at.arn, Shard: at.shard}, own.number); err != nil {
		return err
	}
	w.relay.lost(ctx, at.shard, "", fmt.Errorf("its parent %s was not read within %v", parent.shard, recordsKept))
	return nil
}

// knows reports whether the feed has a marker of a stream of the same table.
func (w *watch) knows(ctx context.Context, arn string) (bool, error) {
	if w.known {
		return true, nil
	}
	info, err := w.relay.feed.Info(ctx, jetstream.WithSubjectFilter(events.CheckpointsAll))
	if err != nil {
		return false, fmt.Errorf("list the checkpoints: %w", err)
	}
	for subject := range info.State.Subjects {
		shard, err := events.ParseCheckpointSubject(subject)
		if err != nil {
			continue // of another release
		}
		m, err := lastMarker(ctx, w.relay.cfg.NATS, shard)
		if err != nil {
			return false, err
		}
		if tableOf(m.Stream) == tableOf(arn) {
			w.known = true
			return true, nil
		}
	}
	return false, nil
}

// tableOf returns a stream's ARN without the label.
func tableOf(arn string) string { return arn[:strings.LastIndexByte(arn, '/')+1] }

// adopt begins to read a table that the feed has never had changes of. A single atomic
// batch makes a marker for each shard that the stream begins with, so that no relay
// takes a parent that was gone before the first relay started for a loss.
func (w *watch) adopt(ctx context.Context, at source) error {
	for roots := rootsOf(w.streams, at.arn); len(roots) > 0; {
		n := min(len(roots), maxBatch)
		if err := w.begin(ctx, roots[:n]); err != nil {
			return err
		}
		roots = roots[n:]
	}
	w.known = true
	return nil
}

// begin makes the first markers of stream shards, all or nothing.
func (w *watch) begin(ctx context.Context, shards []source) error {
	var messages []*nats.Msg
	for i, s := range shards {
		m, err := loadMarker(ctx, w.relay.cfg.NATS, s)
		if err != nil {
			return err
		}
		mark := checkpoint{Stream: s.arn, Shard: s.shard}
		if i == len(shards)-1 {
			return w.mark(ctx, messages, mark, m.number)
		}
		message, err := markerMessage(mark, m.number)
		if err != nil {
			return err
		}
		messages = append(messages, message)
	}
	return nil
}
