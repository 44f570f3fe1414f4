package e2e_test

import (
	"context"
	"math/rand/v2"
	"os"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tidegate/tidegate/engine"
	"github.com/tidegate/tidegate/internal/embednats/natstest"
	"github.com/tidegate/tidegate/pkg/api"
	tidegate "github.com/tidegate/tidegate/pkg/client"
	"github.com/tidegate/tidegate/pkg/events"
	"github.com/tidegate/tidegate/services/relay"
)

const (
	// momentsVariable says at how many moments NATS forgets; fewMoments are enough
	// for a look.
	momentsVariable = "TIDEGATE_TEST_MOMENTS"
	fewMoments      = 5
)

// forgotten are the streams that go back, each to a moment of its own.
func forgotten() []string { return []string{events.StreamName, "KV_TIDEGATE_LEASES"} }

// afterwards are what holds once the system has found its feet after a rollback, and
// while nobody asks for anything.
func afterwards() map[string]func(*testing.T, *world) {
	return map[string]func(*testing.T, *world){
		"usage is exact": func(t *testing.T, w *world) { t.Helper(); w.mustBeCounted(t) },
	}
}

// NATS goes back to older moments, its consumers to newer ones, under callers,
// nodes, relays and aggregators that stay alive: nothing is skipped, nothing is
// counted twice, and everything goes on.
func TestNATSForgets(t *testing.T) {
	moments := fewMoments
	if text := os.Getenv(momentsVariable); text != "" {
		var err error
		moments, err = strconv.Atoi(text)
		require.NoError(t, err)
	}
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	w := newWorld(t, options{streams: engine.StreamOptions{ShardRecords: 100}})
	w.setLimits(t, api.LimitsTarget{System: true}, perDay("rpm", 1_000_000), perDay("tpm", 100_000_000))
	w.admission(t)
	w.admission(t)
	relays := []*process{w.relay(t, "relay-1", relay.Tuning{Page: 7}), w.relay(t, "relay-2", relay.Tuning{Page: 40, Purge: 3 * time.Second, Quarantine: 5 * time.Second})}
	aggregators := []*process{w.aggregator(t, "aggregator-1"), w.aggregator(t, "aggregator-2")}
	c := newCrowd(t, w, seed)
	for i := range c.clients { // what asks while NATS is away does not wait for long
		var err error
		c.clients[i], err = tidegate.New(w.connect(t), tidegate.WithTimeout(300*time.Millisecond))
		require.NoError(t, err)
	}
	slowest := time.Duration(0)
	for range moments {
		w.forgetOnce(t, c, random)
		began := time.Now()
		for name, check := range afterwards() {
			require.True(t, t.Run(name, func(t *testing.T) { check(t, w) }))
		}
		slowest = max(slowest, time.Since(began))
	}
	noticed := map[string]int{}
	for _, p := range relays {
		noticed["relays"] += p.metric(t, "tidegate_relay_forgotten_total")
	}
	for _, p := range aggregators {
		noticed["aggregators"] += p.metric(t, "tidegate_feed_forgotten_total")
	}
	t.Logf("%d moments, noticed %v, the slowest recovery took %s", moments, noticed, slowest)
}

// forgetOnce has the streams go back while callers spend.
func (w *world) forgetOnce(t *testing.T, c *crowd, random *rand.Rand) {
	t.Helper()
	settlers := &settlers{world: w, tokens: map[string]string{}, name: random.Uint64()}
	spend := func() { // some have no answer
		_ = c.round(t.Context(), 4*(1+random.IntN(15)))
		settlers.settle(t.Context(), c.clients[0], 1+random.IntN(5))
	}
	back, later := map[string]*natstest.Moment{}, (*natstest.Moment)(nil)
	for _, stream := range forgotten() {
		spend()
		back[stream] = w.nats.Moment(t)
		defer back[stream].Drop()
	}
	spend()
	if random.IntN(2) == 0 { // the consumers are as they were later, but not at last
		w.mustBeQuiet(t)
		later = w.nats.Moment(t)
		defer later.Drop()
		spend()
	}
	if random.IntN(2) == 0 {
		w.mustBeQuiet(t)
	}
	ctx, stop := context.WithCancel(t.Context())
	var spending sync.WaitGroup
	spending.Go(func() {
		for ctx.Err() == nil {
			_ = c.round(ctx, 4)
			settlers.settle(ctx, c.clients[0], 1)
		}
	})
	w.nats.AllGoBack(t, back, later)
	stop()
	spending.Wait()
	spend()
	settlers.again(t, c.clients[0])
}
