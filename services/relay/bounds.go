package relay

import (
	"context"
	"errors"
	"fmt"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/tidegate/tidegate/internal/process"
	"github.com/tidegate/tidegate/pkg/events"
)

const (
	// samples is how many messages of a kind are looked at for their mean size.
	samples = 8
	// overhead is the size of JetStream's own data for a message, in bytes.
	overhead = 30
)

// stock is the feed's stock of a kind. NATS tells the number of messages and no
// size: that is the mean of samples from the oldest to the newest, so that any relay
// finds the same, after any restart, and no relay has to keep accounts.
type stock struct {
	messages uint64
	bytes    int64 // an estimate; of buckets, the bytes that the other kinds do not take
	oldest   message
	age      float64 // of the oldest, in seconds
}

// message is a message of the feed.
type message struct {
	number  uint64
	subject string
}

// bound drops the messages of a kind above its bound, oldest first, and counts and logs
// the changes that were dropped before a service had seen them.
func (h *housekeeper) bound(ctx context.Context, all followers) error {
	stocks, most, err := h.stocks(ctx)
	if err != nil {
		return err
	}
	h.show(stocks, most, all)
	for kind := range shares() {
		if err := h.boundKind(ctx, kind, stocks[kind], most, all.of(kind)); err != nil {
			return err
		}
	}
	if h.relay.room.forBuckets() {
		return nil
	}
	// Buckets wait. The service that holds them up may be able to do without.
	buckets := all.of(events.KindBucket)
	subject := events.KindSubject(events.KindBucket)
	floor, before := floorOf(buckets.exact(), h.last()), h.purged[subject]
	if floor <= before || stocks[events.KindBucket].oldest.number > floor {
		return nil
	}
	if err := h.purgeBelow(ctx, subject, floor); err != nil {
		return err
	}
	h.dropped(ctx, events.KindBucket, buckets.behind().without(floor), "the feed has no room for newer ones")
	return nil
}

// boundKind drops the oldest messages of a kind down to three quarters of its bound.
// In a feed that is full, where estimates were too low, it goes by half the bound.
func (h *housekeeper) boundKind(ctx context.Context, kind events.Kind, s stock, most int64, of followers) error {
	limit := boundOf(kind, most)
	if h.relay.room.isFull() {
		limit /= 2
	}
	if most <= 0 || s.bytes <= limit {
		return nil
	}
	keep := max(1, uint64(float64(s.messages)*.75*float64(limit)/float64(s.bytes)))
	if err := h.drop(ctx, jetstream.WithPurgeSubject(events.KindSubject(kind)), jetstream.WithPurgeKeep(keep)); err != nil {
		return err
	}
	h.dropped(ctx, kind, of.behind().without(h.last()), "they took more room in the feed than this kind may")
	return nil
}

// dropped counts and tells that changes went before services had seen them.
func (h *housekeeper) dropped(ctx context.Context, kind events.Kind, services []string, why string) {
	delete(h.unseen, kind)
	if len(services) == 0 {
		return
	}
	h.relay.metrics.dropped.WithLabelValues(string(kind)).Inc()
	h.relay.cfg.Log.ErrorContext(process.Unsampled(ctx), "changes were dropped from the feed that services had yet to see", "kind", kind, "services", services, "reason", why)
}

// showKinds looks at the feed and sets the gauges of the kinds.
func (h *housekeeper) showKinds(ctx context.Context) error {
	call, cancel := h.relay.request(ctx)
	defer cancel()
	all, err := h.followers(call)
	if err != nil {
		return err
	}
	stocks, most, err := h.stocks(call)
	if err != nil {
		return err
	}
	h.show(stocks, most, all)
	return nil
}

// show sets the gauges of the kinds.
func (h *housekeeper) show(stocks map[events.Kind]stock, most int64, all followers) {
	for _, kind := range events.Kinds() {
		s, name := stocks[kind], string(kind)
		h.relay.metrics.bytes.WithLabelValues(name).Set(float64(s.bytes))
		h.relay.metrics.bound.WithLabelValues(name).Set(float64(boundOf(kind, most)))
		if h.watchOldest(kind, s.oldest, all); h.unseen[kind].number == 0 {
			s.age = 0
		}
		h.relay.metrics.unseen.WithLabelValues(name).Set(s.age)
	}
}

// hide resets them: another relay shows the kinds.
func (h *housekeeper) hide() {
	h.relay.metrics.bytes.Reset()
	h.relay.metrics.bound.Reset()
	h.relay.metrics.unseen.Reset()
	clear(h.unseen)
}

// stocks returns the feed's stock of each kind, and how many bytes it may have.
func (h *housekeeper) stocks(ctx context.Context) (of map[events.Kind]stock, most int64, err error) {
	info, err := h.relay.feed.Info(ctx, jetstream.WithSubjectFilter(events.ChangesAll))
	if err != nil {
		return nil, 0, fmt.Errorf("look at the feed: %w", err)
	}
	of = map[events.Kind]stock{}
	for subject, n := range info.State.Subjects {
		if kind, _, err := events.ParseSubject(subject); err == nil {
			s := of[kind]
			s.messages += n
			of[kind] = s
		}
	}
	rest := int64(info.State.Bytes) //nolint:gosec // bytes on a disk
	for kind, s := range of {
		if err := h.sample(ctx, kind, &s, info.State.LastSeq); err != nil {
			return nil, 0, err
		}
		if of[kind] = s; kind != events.KindBucket {
			rest -= s.bytes
		}
	}
	if s, ok := of[events.KindBucket]; ok {
		s.bytes = max(0, rest)
		of[events.KindBucket] = s
	}
	return of, info.Config.MaxBytes, nil
}

// sample fills in the result of samples, up to the feed's last message.
func (h *housekeeper) sample(ctx context.Context, kind events.Kind, s *stock, last uint64) error {
	sum, n, from := int64(0), int64(0), uint64(1)
	for i := range uint64(samples) {
		if i > 0 {
			from = s.oldest.number + (last-s.oldest.number)/samples*i
		}
		m, err := h.relay.feed.GetMsg(ctx, from, jetstream.WithGetMsgSubject(events.KindSubject(kind)))
		switch {
		case errors.Is(err, jetstream.ErrMsgNotFound):
			continue // the feed has no message there or behind it
		case err != nil:
			return fmt.Errorf("look at the feed: %w", err)
		}
		if s.oldest.number == 0 {
			s.oldest = message{m.Sequence, m.Subject}
			s.age = max(0, h.relay.cfg.Now().Sub(m.Time).Seconds())
		}
		size := len(m.Subject) + len(m.Data) + overhead
		for name, values := range m.Header {
			for _, value := range values {
				size += len(name) + len(value) + len(": \r\n")
			}
		}
		sum, n = sum+int64(size), n+1
		if kind == events.KindBucket {
			break // the bytes of buckets are the rest, and need no more samples
		}
	}
	if n > 0 {
		s.bytes = int64(s.messages) * sum / n //nolint:gosec // a count
	}
	return nil
}
