package e2e_test

import (
	"math/rand/v2"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tidegate/tidegate/engine/fault"
	"github.com/tidegate/tidegate/pkg/api"
	tidegate "github.com/tidegate/tidegate/pkg/client"
	"github.com/tidegate/tidegate/services/relay"
)

// unreachable lets a part of the system not reach the store, until it is repaired,
// and counts how often it tried.
func unreachable(to *fault.Transport) (tries *atomic.Int64, repair func()) {
	tries = new(atomic.Int64)
	to.Match(func(string, []byte) fault.Fault {
		tries.Add(1)
		return fault.Fault{Kind: fault.Unreachable}
	})
	return tries, func() { to.Match(nil) }
}

// services is what operators are told, once it is as it should be.
func services(t *testing.T, operator tidegate.Operator, what string, asItShould func(map[string]api.Service) bool) {
	t.Helper()
	require.Eventually(t, func() bool {
		all, err := operator.Services(t.Context(), 300*time.Millisecond)
		require.NoError(t, err)
		by := map[string]api.Service{}
		for _, s := range all {
			by[s.Service] = s
		}
		return len(all) == 3 && asItShould(by)
	}, patience, time.Millisecond, what)
}

// The store cannot be reached by those who follow it, NATS restarts, and the relay
// stands still for longer than its iterators live: the feed catches up by itself, and
// whoever looks sees that it was behind.
func TestTheFeedCatchesUpAfterOutages(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	w := newWorld(t, options{})
	w.setLimits(t, api.LimitsTarget{System: true}, perDay("rpm", 1_000_000), perDay("tpm", 1_000_000_000))
	w.admission(t)
	w.relay(t, "relay", relay.Tuning{})
	w.aggregator(t, "aggregator")
	operator := w.client(t).Operator()
	c := newCrowd(t, w, seed)
	c.spend(t, 100)
	services(t, operator, "all is well", func(by map[string]api.Service) bool {
		a, r := by[api.ServiceAggregator], by[api.ServiceRelay]
		return a.Waiting != nil && *a.Waiting == 0 && a.Warning == "" && r.Warning == "" && by[api.ServiceAdmission].Warning == ""
	})

	tries, repair := unreachable(w.writes)
	c.spend(t, 100)
	services(t, operator, "aggregators wait for the store", func(by map[string]api.Service) bool {
		a := by[api.ServiceAggregator]
		return tries.Load() > 100 && a.Waiting != nil && *a.Waiting > 0 && *a.LagSeconds > 0 && a.Warning != ""
	})
	repair()

	tries, repair = unreachable(w.reads)
	c.spend(t, 100)
	services(t, operator, "the relay waits for the store", func(by map[string]api.Service) bool {
		r := by[api.ServiceRelay]
		return tries.Load() > 20 && *r.LagSeconds > 1
	})
	repair()

	c.spend(t, 100)
	w.nats.Restart(t)
	for _, client := range c.clients {
		require.Eventually(t, func() bool {
			_, err := client.Status(t.Context(), "entity-0", "resource-0", nil)
			return err == nil
		}, patience, time.Millisecond, "admission is back")
	}
	c.spend(t, 100)

	w.clock.advance(16 * time.Minute) // iterators live for 15
	c.spend(t, 100)
	w.mustBeCounted(t)
	services(t, operator, "all is well again", func(by map[string]api.Service) bool {
		a, r := by[api.ServiceAggregator], by[api.ServiceRelay]
		return a.Waiting != nil && *a.Waiting == 0 && *a.LagSeconds == 0 && a.Warning == "" && *r.LagSeconds < 60 && *a.DeadLetters == 0
	})
}
