package relay_test

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/stretchr/testify/require"

	"github.com/tidegate/tidegate/engine"
	"github.com/tidegate/tidegate/engine/fault"
	"github.com/tidegate/tidegate/internal/embednats/natstest"
	"github.com/tidegate/tidegate/pkg/keys"
)

// Relays compete for stream shards that keep rolling over; they are killed at any
// step, answers are lost on both sides, pages come again and late: each change is
// in the feed once, and those of an item in order.
func TestEachChangeArrivesOnceAndInOrder(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	w := newWorld(t, engine.StreamOptions{ShardRecords: 150}, fault.Options{Seed: seed, Chances: []fault.Chance{
		{Probability: .05, Operations: []string{"GetRecords"}, Fault: fault.Fault{Kind: fault.PageAgain}},
		{Probability: .05, Operations: []string{"GetRecords"}, Fault: fault.Fault{Kind: fault.PageOverlaps}},
		{Probability: .03, Operations: []string{"GetRecords"}, Fault: fault.Fault{Kind: fault.ShardHeld, Delay: 30 * time.Millisecond}},
		{Probability: .02, Operations: []string{"GetRecords"}, Fault: fault.LimitExceeded()},
		{Probability: .02, Operations: []string{"GetRecords"}, Fault: fault.ExpiredIterator()},
		{Probability: .02, Fault: fault.Fault{Kind: fault.ReplyLost}},
		{Probability: .02, Fault: fault.InternalError()},
		{Probability: .01, Fault: fault.Throttling()},
	}})
	way := natstest.NewCuts(rand.New(rand.NewPCG(seed, 1)))
	running := map[string]*process{}
	started := 0
	start := func() {
		started++
		name := fmt.Sprintf("relay-%d", started)
		tuning := impatient()
		tuning.Page = 1 + random.IntN(50)
		if random.IntN(4) == 0 {
			tuning.Survey = time.Second // it is hardly believed to live: others read beside it
		}
		running[name] = w.start(name, tuning, nats.SetCustomDialer(way))
	}
	last, js := map[string]int64{}, w.jetstream()
	for range 15 {
		for len(running) < 3 {
			start()
		}
		for range 120 {
			entity := fmt.Sprintf("entity-%d", random.IntN(40))
			if random.IntN(20) == 0 {
				w.remove(keys.Bucket{Namespace: ns, Entity: entity, Resource: "gpt-4"})
			}
			last[entity]++
			w.spend(entity, last[entity])
		}
		// The kills meet relays that are behind, more or less.
		behind := random.IntN(300)
		require.Eventually(t, func() bool { return w.count(js)+behind >= w.expected() }, patience, 2*time.Millisecond, "the relays do not get on")
		for name, p := range running {
			switch random.IntN(6) {
			case 0:
				p.leave(t)
				delete(running, name)
			case 1:
				p.crash()
				delete(running, name)
			}
		}
	}
	for len(running) < 3 {
		start()
	}
	w.mustArrive()
	fenced := 0
	for _, p := range running {
		fenced += p.metric(t, "tidegate_relay_fenced_total")
	}
	t.Logf("%d changes, %d relays, %d cuts, %d fenced of the last relays", w.expected(), started, way.Count(), fenced)
}
