package admission

import (
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tidegate/tidegate/engine/fault"
	"github.com/tidegate/tidegate/internal/table"
	"github.com/tidegate/tidegate/pkg/api"
	"github.com/tidegate/tidegate/pkg/bucket"
	"github.com/tidegate/tidegate/pkg/keys"
)

// An answer is prepared beside its write, but tells what the store brings.
func TestAnswersTellWhatOthersSpentMeanwhile(t *testing.T) {
	w := newWorld(t)
	w.setLimits(t, api.LimitsTarget{System: true}, perDay("rpm", 100))
	n := w.node(t, Tuning{})
	nc := w.nats.Connect(t)
	const body = `{"entity":"alice","resource":"gpt-4","consume":{"rpm":1}}`
	require.EqualValues(t, 99, acquire(t, nc, body).Limits[0].Available)

	key := keys.Bucket{Namespace: w.ns, Entity: "alice", Resource: "gpt-4"}
	var struck atomic.Bool
	n.faults.Match(func(op string, _ []byte) fault.Fault {
		if op == "UpdateItem" && struck.CompareAndSwap(false, true) {
			// Another node spends 30 between this one's plan and its write.
			add := bucket.Change{Amount: 30 * bucket.Milli, Min: 0, Max: 1 << 60}
			c := table.Commit{Key: key, Limits: []table.LimitChange{{Name: "rpm", Change: add}}, Nonce: "other.1"}
			_, err := w.client.UpdateItem(t.Context(), c.Input(w.table))
			if err != nil {
				t.Error(err)
			}
		}
		return fault.Fault{}
	})
	reply := acquire(t, nc, body)
	require.True(t, struck.Load())
	require.EqualValues(t, 68, reply.Limits[0].Available)

	released := ask[api.ReleaseReply](t, nc, api.VerbRelease, `{"lease":"`+reply.Lease+`"}`)
	require.True(t, released.Released, "the lease holds, whatever others spent")
	require.EqualValues(t, 68, acquire(t, nc, body).Limits[0].Available)
}
