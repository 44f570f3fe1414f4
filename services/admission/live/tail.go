package live

import (
	"log/slog"
	"slices"
	"strconv"
	"sync/atomic"

	"github.com/nats-io/nats.go"

	"github.com/tidegate/tidegate/pkg/events"
	"github.com/tidegate/tidegate/pkg/keys"
)

const (
	headerStatus    = "Status"
	statusHeartbeat = "100"
	// headerLastConsumer holds, in a heartbeat, the number of events that the consumer
	// has sent.
	headerLastConsumer = "Nats-Last-Consumer"
)

// tail reads the messages of a consumer of the feed.
type tail struct {
	sink   Sink
	log    *slog.Logger
	heard  atomic.Bool // a message has arrived since the last tick
	broken chan error  // buffers one error: the reason to replace the consumer
	last   uint64      // number of the last event; owned by the subscription
	missed int         // ticks in a row without a message; owned by follow
}

func newTail(sink Sink, log *slog.Logger) *tail {
	return &tail{sink: sink, log: log, broken: make(chan error, 1)}
}

// silent reports whether too many ticks of the heartbeat have passed without a message.
// follow calls it at each tick. It counts ticks, not time: a process that the machine
// suspended had no ticks, and first receives the messages that wait for it.
func (t *tail) silent() bool {
	t.missed++
	if t.heard.Swap(false) {
		t.missed = 0
	}
	return t.missed > maxMissedHeartbeats
}

// take handles an event or a heartbeat. It checks that no event before it is missing.
func (t *tail) take(m *nats.Msg) {
	t.heard.Store(true)
	if status := m.Header.Get(headerStatus); status != "" {
		if sent, err := strconv.ParseUint(m.Header.Get(headerLastConsumer), 10, 64); status != statusHeartbeat || err == nil && sent != t.last {
			t.gap()
		}
		return
	}
	meta, err := m.Metadata()
	if err != nil || meta.Sequence.Consumer != t.last+1 {
		t.gap()
	}
	if err == nil {
		t.last = meta.Sequence.Consumer
	}
	e, err := events.Decode(m.Data)
	if err != nil { // from a newer release: the changed place is unknown
		t.log.Warn("a change of configuration in the feed cannot be read: everything is resolved again", "subject", m.Subject, "error", err)
		t.sink.Missed()
		return
	}
	report(e, t.sink)
}

// gap reports that events are missing.
func (t *tail) gap() {
	t.sink.Missed()
	select {
	case t.broken <- errGap:
	default: // an earlier gap is not handled yet
	}
}

// report tells the sink which place or namespace an event has changed. It leaves out
// changes that no acquire depends on, such as an entity's name or an item's version.
func report(e *events.Event, sink Sink) {
	switch key := e.Key.(type) {
	case keys.NamespaceName:
		sink.NamespaceChanged(key.Name)
	case keys.Entity:
		if old, new := e.Entity.Old, e.Entity.New; old == nil || new == nil || old.Parent != new.Parent || old.Cascade != new.Cascade {
			sink.Changed(Place{Namespace: key.Namespace, Entity: key.ID})
		}
	default:
		if p, ok := placeOf(e.Key); ok && changesSettings(e.Config) {
			sink.Changed(p)
		}
	}
}

// placeOf returns the place of a config item, and reports whether the item has a place.
func placeOf(key keys.Item) (p Place, ok bool) {
	switch key := key.(type) {
	case keys.EntityConfig:
		p = Place{key.Namespace, key.Entity, key.Resource}
		if key.Resource == keys.DefaultResource {
			p.Resource = ""
		}
	case keys.ResourceConfig:
		p = Place{Namespace: key.Namespace, Resource: key.Resource}
	case keys.SystemConfig:
		p = Place{Namespace: key.Namespace}
	default:
		return Place{}, false
	}
	return p, true
}

// changesSettings reports whether a change of a config item affects acquires.
func changesSettings(c *events.Change[events.Config]) bool {
	return c.Old == nil || c.New == nil ||
		c.Old.OnUnavailable != c.New.OnUnavailable || !slices.Equal(c.Old.Limits, c.New.Limits)
}
