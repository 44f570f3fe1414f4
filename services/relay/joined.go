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
func (s *survey) join(ctx context.Context, at source) (bool, error) {
	call, cancel := s.relay.request(ctx)
	defer cancel()
	err := s.joinParent(call, at)
	if errors.Is(err, leader.ErrFenced) {
		return false, nil
	}
	return err == nil, err
}

func (s *survey) joinParent(ctx context.Context, at source) error {
	parent, listed := parentOf(s.streams, at)
	var before marker
	if parent.shard != "" {
		var err error
		if before, err = loadMarker(ctx, s.relay.cfg.NATS, parent); err != nil {
			return err
		}
	}
	if parent.shard != "" && !listed && before.begun && !before.Closed {
		return s.loseRest(ctx, parent, before)
	}
	own, err := loadMarker(ctx, s.relay.cfg.NATS, at)
	if err != nil || own.begun {
		return err // reading has begun, which was decided then
	}
	switch known, err := s.knows(ctx, at.arn); {
	case err != nil:
		return err
	case !known:
		return s.adopt(ctx, at)
	case parent.shard == "":
		return nil // a shard of the stream's beginning
	case !before.begun, s.relay.cfg.Now().Sub(before.at) > recordsKept:
		// The parent was never read, or so long ago that DynamoDB may have dropped
		// the oldest records of its child.
		return s.loseBeginning(ctx, at, parent, own)
	}
	return nil
}

// loseRest tells that a stream shard is gone which was not read to its end.
func (s *survey) loseRest(ctx context.Context, parent source, m marker) error {
	closed := m.checkpoint
	closed.Closed = true
	if err := s.mark(ctx, nil, closed, m.number); err != nil {
		return err
	}
	s.relay.lost(ctx, parent.shard, m.Sequence, nil)
	return nil
}

// loseBeginning tells that changes between the parent and a stream shard, or the
// first changes of the shard, may be gone.
func (s *survey) loseBeginning(ctx context.Context, at, parent source, own marker) error {
	if err := s.mark(ctx, nil, checkpoint{Stream: at.arn, Shard: at.shard}, own.number); err != nil {
		return err
	}
	s.relay.lost(ctx, at.shard, "", fmt.Errorf("its parent %s was not read within %v", parent.shard, recordsKept))
	return nil
}

// knows reports whether the feed has a marker of a stream of the same table.
func (s *survey) knows(ctx context.Context, arn string) (bool, error) {
	if s.known {
		return true, nil
	}
	info, err := s.relay.feed.Info(ctx, jetstream.WithSubjectFilter(events.CheckpointsAll))
	if err != nil {
		return false, fmt.Errorf("list the checkpoints: %w", err)
	}
	for subject := range info.State.Subjects {
		shard, err := events.ParseCheckpointSubject(subject)
		if err != nil {
			continue // of another release
		}
		m, err := lastMarker(ctx, s.relay.cfg.NATS, shard)
		if err != nil {
			return false, err
		}
		if tableOf(m.Stream) == tableOf(arn) {
			s.known = true
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
func (s *survey) adopt(ctx context.Context, at source) error {
	for roots := rootsOf(s.streams, at.arn); len(roots) > 0; {
		n := min(len(roots), maxBatch)
		if err := s.begin(ctx, roots[:n]); err != nil {
			return err
		}
		roots = roots[n:]
	}
	s.known = true
	return nil
}

// begin makes the first markers of stream shards, all or nothing.
func (s *survey) begin(ctx context.Context, shards []source) error {
	var messages []*nats.Msg
	for i, at := range shards {
		m, err := loadMarker(ctx, s.relay.cfg.NATS, at)
		if err != nil {
			return err
		}
		mark := checkpoint{Stream: at.arn, Shard: at.shard}
		if i == len(shards)-1 {
			return s.mark(ctx, messages, mark, m.number)
		}
		message, err := markerMessage(mark, m.number)
		if err != nil {
			return err
		}
		messages = append(messages, message)
	}
	return nil
}
