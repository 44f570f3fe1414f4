package admission

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tidegate/tidegate/engine/fault"
	"github.com/tidegate/tidegate/pkg/api"
)

// calls is what a node has asked of the store since.
func (n *node) calls(since map[string]fault.Count) map[string]int64 {
	made := map[string]int64{}
	for operation, c := range n.faults.Counts() {
		if calls := c.Calls - since[operation].Calls; calls > 0 {
			made[operation] = calls
		}
	}
	return made
}

// A bucket that was never divided, and one that is whole again, cost one write for an
// acquire or a settlement, and nothing for a denial.
func TestABucketOfOneShardPaysNothingForShards(t *testing.T) {
	for name, shards := range map[string]int{"never divided": 1, "whole again": 8} {
		t.Run(name, func(t *testing.T) {
			w := shardedWorld(t, 100, shards)
			n := w.node(t, Tuning{})
			nc := w.nats.Connect(t)
			require.True(t, acquire(t, nc, rpmOf("e", 1)).Allowed)
			w.merge(t, "e", 1)
			require.True(t, acquire(t, nc, rpmOf("e", 1)).Allowed)
			require.True(t, acquire(t, nc, rpmOf("e", 1)).Allowed)
			n.atRest(t)

			before, total := n.faults.Counts(), n.faults.Total()
			lease := ""
			for range 20 {
				reply := acquire(t, nc, rpmOf("e", 1))
				require.True(t, reply.Allowed)
				lease = reply.Lease
			}
			ask[api.AdjustReply](t, nc, api.VerbAdjust, adjustBody(lease, `{"rpm":1}`))
			require.Equal(t, map[string]int64{"UpdateItem": 21}, n.calls(before))
			after := n.faults.Total()
			require.InDelta(t, 21, after.WriteUnits-total.WriteUnits, 0)
			require.InDelta(t, 0, after.ReadUnits-total.ReadUnits, 0)
			require.InDelta(t, 0, after.IndexWriteUnits-total.IndexWriteUnits, 0)

			require.True(t, acquire(t, nc, rpmOf("e", 70)).Allowed)
			before = n.faults.Counts()
			for range 20 {
				require.False(t, acquire(t, nc, rpmOf("e", 40)).Allowed)
			}
			require.Empty(t, n.calls(before))
		})
	}
}

// atRest waits until the node does nothing of its own.
func (n *node) atRest(t *testing.T) {
	t.Helper()
	n.router.members.mu.Lock()
	members := n.router.members.lru.Values()
	n.router.members.mu.Unlock()
	for _, m := range members {
		require.Eventually(t, m.isAtRest, patience, tickle)
	}
}

func (m *member) isAtRest() bool {
	m.writer.mu.Lock()
	flying := m.writer.flying
	m.writer.mu.Unlock()
	b := m.state.Load()
	if b == nil || flying {
		return !flying
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.reading == nil && !b.relieving.Load() && !b.splitting.Load()
}

// On a divided bucket an acquire is one write as well, and the whole of it is read
// twice per second at most, half of that on demand.
func TestADividedBucketCostsOneWriteForAnAcquire(t *testing.T) {
	w, m := ratedWorld(t, 8000, 100, 8)
	n := w.node(t, Tuning{})
	require.True(t, admits(t, n.spend(w, "e", 1)))
	n.atRest(t)
	before, total := n.faults.Counts(), n.faults.Total()
	const seconds, perSecond = 10, 20
	for range seconds * perSecond {
		m.pass(1_000_000_000 / perSecond)
		require.True(t, admits(t, n.spend(w, "e", 1)))
	}
	n.atRest(t)
	made := n.calls(before)
	require.EqualValues(t, seconds*perSecond, made["UpdateItem"])
	require.LessOrEqual(t, made["BatchGetItem"], int64(2*seconds))
	require.Len(t, made, 2)
	require.InDelta(t, seconds*perSecond, n.faults.Total().WriteUnits-total.WriteUnits, 0)
}
