package relay

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/tidegate/tidegate/internal/feed"
	"github.com/tidegate/tidegate/pkg/events"
)

const (
	// replayConsumer has the relays' dead letters that are to be tried again; all
	// relays share it.
	replayConsumer = "relay-replays"
	// replayPoll is how long a pull waits for replays.
	replayPoll = 2 * time.Second
)

// tryAgain brings dead letters that are replayed into the feed, behind all that is
// there, until ctx ends.
func (r *Relay) tryAgain(ctx context.Context) {
	for wait := time.Duration(0); ctx.Err() == nil; {
		err := r.tryAgainOnce(ctx)
		if wait = 0; err != nil && ctx.Err() == nil {
			r.metrics.failures.Inc()
			r.cfg.Log.WarnContext(ctx, "replayed records are tried again", "error", err)
			wait = r.tuning.MaxBackoff
		}
		pause(ctx, wait)
	}
}

// openReplays makes the consumer of replays, unless it is there.
func (r *Relay) openReplays(ctx context.Context) (jetstream.Consumer, error) {
	call, cancel := r.request(ctx)
	defer cancel()
	c, err := r.feed.CreateOrUpdateConsumer(call, jetstream.ConsumerConfig{
		Durable: replayConsumer, FilterSubject: events.Replays(service), AckPolicy: jetstream.AckExplicitPolicy,
	})
	if err != nil {
		return nil, fmt.Errorf("open the consumer of replays: %w", err)
	}
	return c, nil
}

func (r *Relay) tryAgainOnce(ctx context.Context) error {
	c, err := r.openReplays(ctx)
	if err != nil {
		return err
	}
	for ctx.Err() == nil {
		if err := r.pullReplay(ctx, c); err != nil {
			return err
		}
	}
	return nil
}

// pullReplay waits for a replay, and sees to it.
func (r *Relay) pullReplay(ctx context.Context, c jetstream.Consumer) error {
	wait, cancel := context.WithTimeout(ctx, replayPoll)
	defer cancel()
	batch, err := c.Fetch(1, jetstream.FetchContext(wait))
	if err != nil {
		return fmt.Errorf("pull replays: %w", err)
	}
	for m := range batch.Messages() {
		if err := r.replay(context.WithoutCancel(ctx), m); err != nil {
			return err
		}
	}
	if err := batch.Error(); err != nil && wait.Err() == nil {
		return fmt.Errorf("pull replays: %w", err)
	}
	return nil
}

// replay makes another attempt at a dead letter. It is published under its mark,
// so that the followers of the feed can tell that it comes late.
func (r *Relay) replay(ctx context.Context, m jetstream.Msg) error {
	call, cancel := r.request(ctx)
	defer cancel()
	meta, err := m.Metadata()
	if err != nil {
		return fmt.Errorf("a replay without a place in the feed: %w", err)
	}
	mark := m.Headers().Get(feed.HeaderReplay)
	again, err := r.eventAgain(m.Data())
	switch {
	case err != nil:
		err = r.dead.Put(call, service, feed.DeadRecord{
			Subject: m.Subject(), Mark: mark, Attempt: strconv.FormatUint(meta.Sequence.Stream, 10), Data: m.Data(), Reason: err,
		})
	case again != nil:
		again.Header.Set(feed.HeaderReplay, mark)
		_, err = r.js.PublishMsg(call, again, jetstream.WithMsgID(replayConsumer+"/"+mark))
	}
	if err != nil {
		return fmt.Errorf("replay: %w", err)
	}
	return m.DoubleAck(call)
}

// eventAgain returns the message for a dead letter, nil if it is not for the feed.
func (r *Relay) eventAgain(data []byte) (*nats.Msg, error) {
	again, err := decodeDeadLetter(data)
	if err != nil {
		return nil, err
	}
	return r.message(&again)
}

// message returns a record's message for the feed, nil for a record that stays out of it.
func (r *Relay) message(record *record) (*nats.Msg, error) {
	e, err := translate(record)
	if err != nil || e == nil {
		return nil, err
	}
	data, err := events.Encode(e)
	if err == nil && len(data) > r.longest() {
		err = fmt.Errorf("the event has %d bytes, more than the %d that a message to this NATS server may have", len(data), r.longest())
	}
	if err != nil {
		return nil, err
	}
	m := nats.NewMsg(events.Subject(e.Kind(), events.Lane(e.Key)))
	m.Data = data
	return m, nil
}

// longest is how many bytes a message may have beside its headers.
func (r *Relay) longest() int {
	const headers = 4096
	return int(r.cfg.NATS.MaxPayload()) - headers
}
