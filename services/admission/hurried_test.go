package admission

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tidegate/tidegate/engine/fault"
	"github.com/tidegate/tidegate/pkg/api"
)

// heldRecords holds back the next write of a record until the test lets it go.
func (n *node) heldRecords(t *testing.T) (sent <-chan struct{}, letGo func()) {
	t.Helper()
	arrived, gate := make(chan struct{}), make(chan struct{})
	first := make(chan struct{}, 1)
	first <- struct{}{}
	n.leases.Records = &faultyRecords{Records: n.leases.Records, reads: fine, writes: func() error {
		select {
		case <-first:
			close(arrived)
			<-gate
		default:
		}
		return nil
	}}
	return arrived, func() { close(gate) }
}

// A caller whose time ends while the record is written is not told that nothing was
// spent: the settlement goes on, and a repeat counts once.
func TestACallerLeavesWhileTheRecordIsWritten(t *testing.T) {
	for name, c := range map[string]struct {
		deltas string
		want   int64
	}{"debit": {`{"tpm":100}`, 600}, "credit": {`{"tpm":-100}`, 400}, "mixed": {`{"rpm":1,"tpm":-100}`, 400}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := tpmWorld(t)
			n := w.node(t, Tuning{})
			nc := w.nats.Connect(t)
			lease := acquire(t, nc, tokens500).Lease
			sent, letGo := n.heldRecords(t)
			hurried := natsMsg(api.VerbAdjust, adjustBody(lease, c.deltas))
			hurried.Header.Set(api.HeaderTimeout, api.FormatTimeout(500*time.Millisecond))
			hurried.Reply = nc.NewInbox()
			answers, err := nc.SubscribeSync(hurried.Reply)
			require.NoError(t, err)
			require.NoError(t, nc.PublishMsg(hurried))
			<-sent
			answer, err := answers.NextMsg(patience)
			require.NoError(t, err)
			require.Equal(t, api.CodeUnavailable, codeOf(answer), "408 would say that nothing was spent")
			letGo()
			for range 3 {
				ask[api.AdjustReply](t, nc, api.VerbAdjust, adjustBody(lease, c.deltas))
			}
			require.Eventually(t, func() bool { return w.consumed(t, "tpm") == c.want }, patience, tickle)
		})
	}
}

// Once the record says that an operation is done, its caller is told so when the time
// is up, also while the store takes no refund; before, that it is under way.
func TestWhatACallerIsToldWhenItsTimeIsUp(t *testing.T) {
	for name, c := range map[string]struct {
		deltas string
		code   api.Code
	}{"credit": {`{"tpm":-100}`, ""}, "debit": {`{"tpm":100}`, api.CodeUnavailable}, "mixed": {`{"rpm":1,"tpm":-100}`, api.CodeUnavailable}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := tpmWorld(t)
			n := w.node(t, Tuning{StoreTimeout: maxStoreCall})
			nc := w.nats.Connect(t)
			lease := acquire(t, nc, tokens500).Lease
			always(n, fault.Throttling(), "UpdateItem")
			m := send(t, nc, api.VerbAdjust, adjustBody(lease, c.deltas), 500*time.Millisecond)
			require.Equal(t, c.code, codeOf(m), string(m.Data))
			n.faults.Match(nil)
			again := ask[api.AdjustReply](t, nc, api.VerbAdjust, adjustBody(lease, c.deltas))
			require.NotEqual(t, lease, again.Lease)
			if c.code == "" {
				require.Equal(t, again.Lease, leaseOf(m.Data), "the token of the next operation")
			}
		})
	}
}
