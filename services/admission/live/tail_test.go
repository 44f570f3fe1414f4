package live

import (
	"fmt"
	"log/slog"
	"sync"
	"testing"

	"github.com/nats-io/nats.go"
	"github.com/stretchr/testify/require"

	"github.com/tidegate/tidegate/pkg/events"
	"github.com/tidegate/tidegate/pkg/keys"
)

// recordingSink records the reports of a follower.
type recordingSink struct {
	mu         sync.Mutex
	places     []Place
	namespaces []string
	missed     int
}

func (s *recordingSink) Changed(p Place) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.places = append(s.places, p)
}

func (s *recordingSink) NamespaceChanged(name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.namespaces = append(s.namespaces, name)
}

func (s *recordingSink) Missed() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.missed++
}

func (s *recordingSink) timesMissed() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.missed
}

// configEvent returns the event of a config item whose limits changed.
func configEvent(key keys.Item) *events.Event {
	return &events.Event{Key: key, Config: &events.Change[events.Config]{Old: limitsOf(1), New: limitsOf(2)}}
}

func limitsOf(capacity int64) *events.Config {
	return &events.Config{Limits: []events.ConfigLimit{{Name: "rpm", Capacity: capacity, RefillAmount: capacity, RefillPeriodSeconds: 60}}}
}

// message returns an event as a consumer delivers it.
func message(sequence int, data []byte) *nats.Msg {
	return &nats.Msg{
		Subject: events.Subject(events.KindConfig, 0), Sub: &nats.Subscription{}, Data: data,
		Reply: fmt.Sprintf("$JS.ACK.%s.c.1.%d.%d.1763712000000000000.0", events.StreamName, 100+sequence, sequence),
	}
}

func heartbeat(last string) *nats.Msg {
	return &nats.Msg{Header: nats.Header{headerStatus: {statusHeartbeat}, headerLastConsumer: {last}}}
}

// An event or a heartbeat with an unexpected number shows that events were lost.
func TestAGapIsNoticed(t *testing.T) {
	e := configEvent(keys.SystemConfig{Namespace: "AAAAAAAAAAA"})
	e.Position, _ = events.NewPosition("2026-11-21T08:00:00.000", "1")
	data, err := events.Encode(e)
	require.NoError(t, err)
	event := func(sequence int) *nats.Msg { return message(sequence, data) }
	for name, c := range map[string]struct {
		messages []*nats.Msg
		broken   bool
	}{
		"in order":                {[]*nats.Msg{heartbeat("0"), event(1), event(2), heartbeat("2")}, false},
		"the first is missing":    {[]*nats.Msg{event(2)}, true},
		"one in between":          {[]*nats.Msg{event(1), event(3)}, true},
		"one comes again":         {[]*nats.Msg{event(1), event(1)}, true},
		"the last":                {[]*nats.Msg{event(1), heartbeat("2")}, true},
		"the consumer is deleted": {[]*nats.Msg{{Header: nats.Header{headerStatus: {"409"}}}}, true},
	} {
		sink, sent := &recordingSink{}, 0
		tail := newTail(sink, slog.New(slog.DiscardHandler))
		for _, m := range c.messages {
			tail.take(m)
			if m.Data != nil {
				sent++
			}
		}
		require.Equal(t, c.broken, len(tail.broken) > 0, name)
		require.Equal(t, c.broken, sink.missed > 0, name)
		require.Len(t, sink.places, sent, name)
	}
}

// A feed is silent after several heartbeats in a row without a message, and not
// because one came late.
func TestSilenceIsNoticed(t *testing.T) {
	tail := newTail(&recordingSink{}, slog.New(slog.DiscardHandler))
	for range 3 {
		for range maxMissedHeartbeats {
			require.False(t, tail.silent())
		}
		tail.take(heartbeat("0"))
	}
	for range maxMissedHeartbeats + 1 { // the first tick still has the message
		require.False(t, tail.silent())
	}
	require.True(t, tail.silent())
	require.Empty(t, tail.broken)
}

// An event that this release cannot read may concern every bucket.
func TestAnUnreadableChangeConcernsEverything(t *testing.T) {
	sink := &recordingSink{}
	tail := newTail(sink, slog.New(slog.DiscardHandler))
	tail.take(message(1, []byte(`{"v":2,"kind":"config"}`)))
	require.Equal(t, 1, sink.missed)
	require.Empty(t, sink.places)
	require.Empty(t, tail.broken, "no event is missing")
}

// The sink gets the place of each change that acquires depend on, and no other changes.
func TestAnEventNamesItsPlace(t *testing.T) {
	const ns, entity, resource = "AAAAAAAAAAA", "api-key-123", "gpt-4"
	versioned := *limitsOf(1)
	versioned.Version++
	policy := *limitsOf(1)
	policy.OnUnavailable = "allow"
	system := func(old, after *events.Config) *events.Event {
		return &events.Event{Key: keys.SystemConfig{Namespace: ns}, Config: &events.Change[events.Config]{Old: old, New: after}}
	}
	ofEntity := func(old, after *events.Entity) *events.Event {
		return &events.Event{Key: keys.Entity{Namespace: ns, ID: entity}, Entity: &events.Change[events.Entity]{Old: old, New: after}}
	}
	everywhere, atEntity := []Place{{ns, "", ""}}, []Place{{ns, entity, ""}}
	for name, c := range map[string]struct {
		event  *events.Event
		places []Place
	}{
		"the system's limits":           {configEvent(keys.SystemConfig{Namespace: ns}), everywhere},
		"a resource's limits":           {configEvent(keys.ResourceConfig{Namespace: ns, Resource: resource}), []Place{{ns, "", resource}}},
		"an entity's default limits":    {configEvent(keys.EntityConfig{Namespace: ns, Entity: entity, Resource: keys.DefaultResource}), atEntity},
		"an entity's limits":            {configEvent(keys.EntityConfig{Namespace: ns, Entity: entity, Resource: resource}), []Place{{ns, entity, resource}}},
		"limits appear":                 {system(nil, limitsOf(1)), everywhere},
		"limits disappear":              {system(limitsOf(1), nil), everywhere},
		"the policy of an outage":       {system(limitsOf(1), &policy), everywhere},
		"only the version of an item":   {system(limitsOf(1), &versioned), nil},
		"an entity appears":             {ofEntity(nil, &events.Entity{}), atEntity},
		"an entity disappears":          {ofEntity(&events.Entity{}, nil), atEntity},
		"an entity's parent":            {ofEntity(&events.Entity{}, &events.Entity{Parent: "acme"}), atEntity},
		"whether an entity cascades":    {ofEntity(&events.Entity{}, &events.Entity{Cascade: true}), atEntity},
		"an entity's name and version":  {ofEntity(&events.Entity{Name: "before", Version: 1}, &events.Entity{Name: "after", Version: 2}), nil},
		"an item that is not a setting": {&events.Event{Key: keys.Bucket{Namespace: ns, Entity: entity, Resource: resource}}, nil},
	} {
		sink := &recordingSink{}
		report(c.event, sink)
		require.Equal(t, c.places, sink.places, name)
		require.Empty(t, sink.namespaces, name)
		require.Zero(t, sink.missed, name)
	}
	sink := &recordingSink{}
	report(&events.Event{Key: keys.NamespaceName{Name: "default"}, Namespace: &events.Change[events.Namespace]{Old: &events.Namespace{ID: ns}}}, sink)
	require.Equal(t, []string{"default"}, sink.namespaces)
	require.Empty(t, sink.places)
	require.Zero(t, sink.missed)
}
