package feed

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/tidegate/tidegate/pkg/events"
)

// Record is an event of a batch.
type Record struct {
	*events.Event
	// Replay names the dead letter that the record was replayed from. It is empty for a record
	// straight from the feed. Later records of the lane were applied before a replay.
	Replay string

	message jetstream.Msg
}

// Mark names the record among the service's, for good: the position in the table's stream,
// wherever in a feed the record is, or the mark that it was replayed with.
func (r *Record) Mark() string { return cmp.Or(r.Replay, r.Position.String()) }

// Batch holds the records of a single pull of a lane, in order, without events of unknown
// kinds.
type Batch struct {
	Lane    int
	Records []Record

	refused map[int]error
}

// Refuse puts a record, by its index, among the dead letters when the handler
// has returned nil: for a permanent refusal, never for an outage.
func (b *Batch) Refuse(index int, reason error) {
	if b.refused == nil {
		b.refused = make(map[int]error)
	}
	b.refused[index] = reason
}

// Refused are the records refused so far, by index.
func (b *Batch) Refused() map[int]error { return b.refused }

type batchKey struct{}

// pulled is the value that a router message carries in its context.
type pulled struct {
	lane     int
	messages []jetstream.Msg
}

// handle is the router's handler: it reads the records, gives them to the
// service, and puts unusable records among the dead letters.
func (g *Group) handle(m *message.Message) error {
	ctx := m.Context()
	p, ok := ctx.Value(batchKey{}).(pulled)
	if !ok {
		return errors.New("a message without a batch")
	}
	b, dead, err := g.read(p)
	if err != nil {
		return g.waits(ctx, p.lane, err)
	}
	if len(b.Records) > 0 {
		if err := g.cfg.Handle(ctx, b); err != nil {
			return g.waits(ctx, p.lane, err)
		}
	}
	for i, reason := range b.refused {
		dead = append(dead, refusedMessage{b.Records[i].message, b.Records[i].Mark(), reason})
	}
	for _, d := range dead {
		g.metrics.dead.Inc()
		g.cfg.Log.ErrorContext(ctx, "a record goes to the dead letters", "service", g.cfg.Service, "lane", p.lane, "reason", d.reason)
		c, err := deadRecordOf(d)
		if err == nil {
			err = g.dead.Put(ctx, g.cfg.Service, c)
		}
		if err != nil {
			return g.waits(ctx, p.lane, err)
		}
	}
	g.metrics.done(b, g.cfg.Now())
	return nil
}

// refusedMessage is a message on its way to the dead letters.
type refusedMessage struct {
	message jetstream.Msg
	mark    string
	reason  error
}

// read decodes the pulled messages. The error is events.ErrUnknownVersion: the lane
// waits for a newer release.
func (g *Group) read(p pulled) (*Batch, []refusedMessage, error) {
	b := &Batch{Lane: p.lane, Records: make([]Record, 0, len(p.messages))}
	var dead []refusedMessage
	for _, m := range p.messages {
		e, err := g.decode(m.Data())
		switch {
		case err == nil:
			b.Records = append(b.Records, Record{Event: e, Replay: m.Headers().Get(HeaderReplay), message: m})
		case errors.Is(err, events.ErrUnknownKind):
			g.metrics.skipped.Inc()
		case errors.Is(err, events.ErrUnknownVersion):
			return nil, nil, err
		case g.cfg.Forgetful:
			g.metrics.skipped.Inc()
			g.cfg.Log.Warn("a record that cannot be read is left out", "service", g.cfg.Service, "lane", p.lane, "reason", err)
		default:
			dead = append(dead, refusedMessage{m, markOf(m), err})
		}
	}
	return b, dead, nil
}

// waits says why a lane does not get on; its batch comes again.
func (g *Group) waits(ctx context.Context, lane int, err error) error {
	g.cfg.Log.ErrorContext(ctx, "a batch is tried again", "service", g.cfg.Service, "lane", lane, "error", err)
	return fmt.Errorf("lane %d: %w", lane, err)
}
