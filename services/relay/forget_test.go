package relay_test

import (
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tidegate/tidegate/engine"
	"github.com/tidegate/tidegate/engine/fault"
	"github.com/tidegate/tidegate/pkg/events"
)

// The feed goes back to earlier moments while relays are at work and stream shards
// follow each other: each change is in it again, once, and those of an item in order,
// and a relay that lost something raises the alarm.
func TestTheFeedGoesBack(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	w := newWorld(t, engine.StreamOptions{ShardRecords: 40}, fault.Options{})
	tuning := impatient()
	tuning.Page = 1 + random.IntN(20)
	a, b := w.start("a", tuning), w.start("b", tuning)
	<-a.Ready()
	<-b.Ready()
	n, js := int64(0), w.jetstream()
	spend := func() {
		for range 1 + random.IntN(10) {
			n++
			w.spendAll(n, n)
		}
	}
	for range 6 {
		spend()
		before := w.nats.Moment(t)
		spend()
		if random.IntN(3) > 0 {
			require.Eventually(t, func() bool { return w.count(js) >= w.expected() }, patience, patience/10_000)
		}
		w.nats.GoBack(t, events.StreamName, before, nil)
		before.Drop()
	}
	w.mustArrive()
	t.Logf("%d changes, %d alarms", w.expected(), a.metric(t, "tidegate_relay_forgotten_total")+b.metric(t, "tidegate_relay_forgotten_total"))
}

// What a relay remembers of a parent's end counts no more once NATS has forgotten it:
// the parent's last changes come again, before those of its children.
func TestAParentsEndIsForgotten(t *testing.T) {
	w := newWorld(t, engine.StreamOptions{ShardRecords: 20}, fault.Options{})
	p := w.start("a", impatient())
	w.spendAll(1, 2)
	w.mustArrive()
	before := w.nats.Moment(t)
	w.spendAll(3, 20) // over the ends of several stream shards
	w.mustArrive()
	w.nats.GoBack(t, events.StreamName, before, nil)
	w.spendAll(21, 22)
	w.mustArrive()
	require.Equal(t, 1, p.metric(t, "tidegate_relay_forgotten_total"))
}

// A feed that is gone as a whole is made again, and a restart that loses nothing is
// no alarm.
func TestTheFeedIsGone(t *testing.T) {
	w := newWorld(t, engine.StreamOptions{ShardRecords: 20}, fault.Options{})
	before := w.nats.Moment(t)
	p := w.start("a", impatient())
	w.spendAll(1, 10)
	w.mustArrive()
	w.nats.Restart(t)
	w.spendAll(11, 12)
	w.mustArrive()
	require.Zero(t, p.metric(t, "tidegate_relay_forgotten_total"))
	w.nats.GoBack(t, events.StreamName, before, nil)
	w.spendAll(13, 14)
	w.mustArrive()
	require.Equal(t, 1, p.metric(t, "tidegate_relay_forgotten_total"))
}
