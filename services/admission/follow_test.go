package admission

import (
	"encoding/json"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/require"

	"github.com/tidegate/tidegate/engine/fault"
	"github.com/tidegate/tidegate/internal/feed"
	"github.com/tidegate/tidegate/pkg/api"
	"github.com/tidegate/tidegate/pkg/events"
	"github.com/tidegate/tidegate/pkg/keys"
	"github.com/tidegate/tidegate/services/admission/live"
)

// feed is the change feed as a relay fills it.
type changeFeed struct {
	js jetstream.JetStream
	n  int
}

func (w *world) feed(t *testing.T) *changeFeed {
	t.Helper()
	f := &changeFeed{}
	var err error
	f.js, err = jetstream.New(w.nats.Connect(t))
	require.NoError(t, err)
	_, err = feed.EnsureFeed(t.Context(), f.js, feed.Retention{})
	require.NoError(t, err)
	return f
}

// tell publishes an event.
func (f *changeFeed) tell(t *testing.T, e *events.Event) {
	t.Helper()
	f.n++
	var err error
	e.Position, err = events.NewPosition("2026-11-21T08:00:00.000", strconv.Itoa(f.n))
	require.NoError(t, err)
	data, err := events.Encode(e)
	require.NoError(t, err)
	f.send(t, events.Subject(e.Kind(), events.Lane(e.Key)), data)
}

func (f *changeFeed) send(t *testing.T, subject string, data []byte) {
	t.Helper()
	_, err := f.js.Publish(t.Context(), subject, data)
	require.NoError(t, err)
}

// configEvent returns the event of a config item whose limits changed.
func configEvent(key keys.Item) *events.Event {
	limit := func(n int64) *events.Config {
		return &events.Config{Limits: []events.ConfigLimit{{Name: "rpm", Capacity: n, RefillAmount: n, RefillPeriodSeconds: 60}}}
	}
	return &events.Event{Key: key, Config: &events.Change[events.Config]{Old: limit(1), New: limit(2)}}
}

// follower is a node that follows the feed.
func (w *world) follower(t *testing.T) *node {
	t.Helper()
	n := w.node(t, Tuning{FeedHeartbeat: live.MinHeartbeat})
	n.follows(t)
	return n
}

func (n *node) follows(t *testing.T) {
	t.Helper()
	require.Eventually(t, n.follower.Following, patience, time.Millisecond, "the node does not follow the feed")
}

// outdated reports whether the node resolves the bucket again, when next asked.
func (n *node) outdated(entity, resource string, ns string) bool {
	return n.router.member(keys.Bucket{Namespace: ns, Entity: entity, Resource: resource}).writer.settings.isOutdated()
}

// What another writer of the table changes binds as soon as the feed tells of it:
// here nobody broadcasts anything.
func TestWhatAnotherWriterChangesBinds(t *testing.T) {
	w := newWorld(t)
	f := w.feed(t)
	nodes := []*node{w.follower(t), w.follower(t)}
	nc := w.nats.Connect(t)
	const entity, resource = "api-key-123", "gpt-4"
	targets := []api.LimitsTarget{{System: true}, {Resource: resource}, {Entity: entity}, {Entity: entity, Resource: resource}}
	w.setLimits(t, targets[0], perDay("rpm", 1000))
	for i, key := range []keys.Item{
		keys.SystemConfig{Namespace: w.ns},
		keys.ResourceConfig{Namespace: w.ns, Resource: resource},
		keys.EntityConfig{Namespace: w.ns, Entity: entity, Resource: keys.DefaultResource},
		keys.EntityConfig{Namespace: w.ns, Entity: entity, Resource: resource},
	} {
		for _, n := range nodes {
			require.True(t, n.acquireAt(t, nc, one).Allowed)
		}
		w.setLimits(t, targets[i], perDay("rpm", int64(100-i)))
		f.tell(t, configEvent(key))
		for _, n := range nodes {
			require.Eventually(t, func() bool { return n.acquireAt(t, nc, one).Limits[0].Capacity == int64(100-i) },
				patience, time.Millisecond, "%T", key)
		}
	}
}

// A changed parent, or whether an entity cascades, concerns its buckets; its name
// does not.
func TestEntitiesAndNamespacesInTheFeed(t *testing.T) {
	w := newWorld(t)
	f, nc := w.feed(t), w.nats.Connect(t)
	rpmPerDay(t, w, 10)
	n := w.follower(t)
	require.True(t, n.acquireAt(t, nc, one).Allowed)
	change := func(old, after *events.Entity) {
		t.Helper()
		f.tell(t, &events.Event{Key: keys.Entity{Namespace: w.ns, ID: "api-key-123"}, Entity: &events.Change[events.Entity]{Old: old, New: after}})
		f.tell(t, configEvent(keys.SystemConfig{Namespace: "BBBBBBBBBBE"})) // the next change, of which it is known when it was heard
	}
	heard := uint64(0)
	settled := func(more uint64) {
		t.Helper()
		heard += more
		require.Eventually(t, func() bool { return n.memory.invalidations.Count() == heard }, patience, time.Millisecond)
	}
	heard = n.memory.invalidations.Count()
	change(&events.Entity{Name: "before", Version: 1}, &events.Entity{Name: "after", Version: 2})
	settled(1)
	require.False(t, n.outdated("api-key-123", "gpt-4", w.ns), "a name concerns nobody")
	change(&events.Entity{}, &events.Entity{Parent: "acme"})
	settled(2)
	require.True(t, n.outdated("api-key-123", "gpt-4", w.ns))

	same := &events.Config{Limits: []events.ConfigLimit{{Name: "rpm", Capacity: 1, RefillAmount: 1, RefillPeriodSeconds: 60}}}
	versioned := *same
	versioned.Version++
	f.tell(t, &events.Event{Key: keys.SystemConfig{Namespace: w.ns}, Config: &events.Change[events.Config]{Old: same, New: &versioned}})
	f.tell(t, configEvent(keys.SystemConfig{Namespace: "BBBBBBBBBBE"}))
	settled(1)

	_, err := n.namespaces.Lookup(t.Context(), api.DefaultNamespace, patience)
	require.NoError(t, err)
	f.tell(t, &events.Event{Key: keys.NamespaceName{Name: api.DefaultNamespace}, Namespace: &events.Change[events.Namespace]{
		Old: &events.Namespace{ID: w.ns}, New: &events.Namespace{ID: w.ns, DeletedMs: 1},
	}})
	require.Eventually(t, func() bool {
		_, known := n.namespaces.Cached(api.DefaultNamespace)
		return !known
	}, patience, time.Millisecond)
}

// A node needs no feed. When there is one, it follows it; and what was changed
// before that is read again.
func TestANodeWithoutAFeed(t *testing.T) {
	w := newWorld(t)
	rpmPerDay(t, w, 10)
	n := w.node(t, Tuning{FeedHeartbeat: live.MinHeartbeat})
	nc := w.nats.Connect(t)
	require.EqualValues(t, 10, n.acquireAt(t, nc, one).Limits[0].Capacity)
	rpmPerDay(t, w, 9)
	require.EqualValues(t, 10, n.acquireAt(t, nc, one).Limits[0].Capacity, "it has not heard of that")
	require.False(t, n.follower.Following())
	w.feed(t)
	n.follows(t)
	require.EqualValues(t, 9, n.acquireAt(t, nc, one).Limits[0].Capacity)
}

// Changes may have been made while NATS was away, or while the server had no
// consumer for the node: all is read again, and the feed is followed anew.
func TestWhatWasMissedIsReadAgain(t *testing.T) {
	w := newWorld(t)
	f := w.feed(t)
	rpmPerDay(t, w, 100)
	n := w.follower(t)
	nc := w.nats.Connect(t)
	capacity := func() int64 { return n.acquireAt(t, nc, one).Limits[0].Capacity }
	require.EqualValues(t, 100, capacity())

	for _, c := range []struct {
		what string
		lose func()
	}{
		{"NATS restarts", func() {
			w.nats.Stop()
			rpmPerDay(t, w, 99)
			w.nats.Restart(t)
			f = w.feed(t)
		}},
		{"the consumer is gone", func() {
			stream, err := f.js.Stream(t.Context(), events.StreamName)
			require.NoError(t, err)
			for c := range stream.ListConsumers(t.Context()).Info() {
				require.NoError(t, stream.DeleteConsumer(t.Context(), c.Name))
			}
			rpmPerDay(t, w, 98)
		}},
	} {
		before := testutil.ToFloat64(n.Service.metrics.renewals)
		c.lose()
		require.Eventually(t, func() bool { return testutil.ToFloat64(n.Service.metrics.renewals) > before }, patience, time.Millisecond, c.what)
		n.follows(t)
	}
	require.EqualValues(t, 98, capacity())
	rpmPerDay(t, w, 97)
	f.tell(t, configEvent(keys.SystemConfig{Namespace: w.ns}))
	require.Eventually(t, func() bool { return capacity() == 97 }, patience, time.Millisecond)
}

// A node that stops hears of changes for as long as it answers.
func TestANodeThatStopsHearsOfChanges(t *testing.T) {
	w := newWorld(t)
	rpmPerDay(t, w, 10)
	f := w.feed(t)
	n := w.follower(t)
	nc := w.nats.Connect(t)
	acquire(t, nc, one)
	hold, held := make(chan struct{}), make(chan struct{})
	var once sync.Once
	n.faults.Match(func(operation string, _ []byte) fault.Fault {
		if operation == "UpdateItem" {
			once.Do(func() { close(held) })
			<-hold
		}
		return fault.Fault{}
	})
	answers := make(chan *nats.Msg, 1)
	go func() {
		m, _ := nc.Request(api.Subject(api.DefaultNamespace, api.VerbAcquire), []byte(one), patience)
		answers <- m
	}()
	<-held
	stopped := make(chan error)
	go func() { stopped <- n.stop() }()
	require.Eventually(t, func() bool { // it takes no more requests
		_, err := nc.Request(api.Subject(api.DefaultNamespace, api.VerbStatus), []byte(`{"entity":"api-key-123","resource":"gpt-4"}`), time.Second)
		return err != nil
	}, patience, time.Millisecond)
	heard := n.memory.invalidations.Count()
	f.tell(t, configEvent(keys.SystemConfig{Namespace: w.ns}))
	require.Eventually(t, func() bool { return n.memory.invalidations.Count() == heard+1 }, patience, time.Millisecond, "the feed")
	body, err := json.Marshal(api.LimitsTarget{System: true})
	require.NoError(t, err)
	require.NoError(t, nc.Publish(api.ConfigSubject(api.DefaultNamespace), body))
	require.Eventually(t, func() bool { return n.memory.invalidations.Count() == heard+2 }, patience, time.Millisecond, "the broadcast")
	close(hold)
	require.NoError(t, <-stopped)
	require.NotNil(t, <-answers)
}
