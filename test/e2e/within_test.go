package e2e_test

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tidegate/tidegate/pkg/api"
	tidegate "github.com/tidegate/tidegate/pkg/client"
	"github.com/tidegate/tidegate/pkg/keys"
	"github.com/tidegate/tidegate/services/relay"
)

// P8: a change that nobody is told of binds on every node by the feed alone. Time
// stands still, so that settings never grow old enough to be read again. Within a second: that is what the fastest of the
// changes takes at most, on a machine that is busy, too.
func TestAChangeBindsWithinASecond(t *testing.T) {
	w := newWorld(t, options{still: true})
	const entity, resource = "api-key-123", "gpt-4"
	config := keys.ResourceConfig{Namespace: w.ns, Resource: resource}
	w.setLimits(t, api.LimitsTarget{Resource: resource}, perDay("rpm", 1_000_000))
	w.relay(t, "relay", relay.Tuning{})
	nodes := []*process{w.admission(t), w.admission(t)}
	followsAll(t, nodes)
	client := w.client(t)
	capacity := func(n int64) func() bool {
		return func() bool {
			lease, err := client.Acquire(t.Context(), entity, resource, tidegate.Consume{"rpm": 1})
			require.NoError(t, err)
			return lease.Limits()[0].Capacity == n
		}
	}
	everywhere(t, nodes, "at first", capacity(1_000_000))
	var took []time.Duration
	for n := int64(1); n <= 10; n++ {
		changed := time.Now()
		w.edit(t, config, 1_000_000-n)
		everywhere(t, nodes, "a limit is lowered", capacity(1_000_000-n))
		took = append(took, time.Since(changed))
	}
	t.Logf("%v", took)
	require.Less(t, slices.Min(took), time.Second)
}
