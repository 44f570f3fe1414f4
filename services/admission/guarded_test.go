package admission

import (
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tidegate/tidegate/engine/fault"
	"github.com/tidegate/tidegate/pkg/api"
)

// A debit is planned for an idle bucket, in the form that sets its count. Before it is
// written, another node brings the bucket to other settings, or divides it: what was
// planned is not true any more, so that the debit is planned again, and the bucket owes
// exactly what was spent.
func TestADebitMeetsAnotherNodesChange(t *testing.T) {
	for name, change := range map[string]func(t *testing.T, w *world, other *node){
		"sync": func(t *testing.T, w *world, other *node) {
			t.Helper()
			w.setLimits(t, api.LimitsTarget{Resource: "gpt-4"}, perDay("tpm", 500))
			c := other.router.member(w.bucketKey("e"))
			c.writer.settings.outdated.Store(true)
			require.NoError(t, other.doAt(subcall{c, operation{peek: true, sync: true}})[0].err)
		},
		"division": func(t *testing.T, w *world, _ *node) { t.Helper(); w.divide(t, "e", 2) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.setLimits(t, api.LimitsTarget{Resource: "gpt-4"}, perDay("tpm", 1000))
			n, other := w.node(t, Tuning{}), w.node(t, Tuning{})
			nc := w.nats.Connect(t)
			lease := n.acquireAt(t, nc, `{"entity":"e","resource":"gpt-4","consume":{"tpm":100}}`).Lease
			w.hold(t, "e", 0, 2000) // more than its capacity has refilled: it is idle, and the debit sets its count
			require.NoError(t, n.doAt(subcall{n.router.member(w.bucketKey("e")), operation{peek: true, since: n.clock.Mono()}})[0].err)
			var changed atomic.Bool
			n.faults.Match(func(op string, _ []byte) fault.Fault {
				if op == "UpdateItem" && changed.CompareAndSwap(false, true) {
					change(t, w, other)
				}
				return fault.Fault{}
			})
			m := n.at(t, nc, api.VerbAdjust, adjustBody(lease, `{"tpm":300}`))
			require.Empty(t, codeOf(m), string(m.Data))
			require.True(t, changed.Load())
			tree := w.tree(t, "e")
			consumed, held := int64(0), int64(0)
			now, err := n.clock.Now()
			require.NoError(t, err)
			for _, b := range tree {
				l := b.Find("tpm")
				consumed += l.Consumed
				held += l.Window(b.Shard(), now).Balance(l.Drawn)
			}
			capacity := int64(1000)
			if name == "sync" {
				capacity = 500
			}
			require.Equal(t, int64(400_000), consumed)
			require.InDelta(t, (capacity-300)*1000, held, 20_000, "full, less the debit")
		})
	}
}
