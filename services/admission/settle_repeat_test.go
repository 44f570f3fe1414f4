package admission

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/stretchr/testify/require"

	"github.com/tidegate/tidegate/engine/fault"
	"github.com/tidegate/tidegate/pkg/api"
	"github.com/tidegate/tidegate/services/admission/lease"
)

// countedRecords counts the calls of nodes for lease records.
type countedRecords struct {
	lease.Records
	*recordCalls
}

type recordCalls struct{ reads, writes, overtaken atomic.Int64 }

// count counts the record calls of a node from now on.
func (c *recordCalls) count(n *node) { n.leases.Records = &countedRecords{n.leases.Records, c} }

func (c *countedRecords) Read(ctx context.Context, key string) (lease.Version, error) {
	c.reads.Add(1)
	return c.Records.Read(ctx, key)
}

func (c *countedRecords) Write(ctx context.Context, key string, rec *lease.Record, expected uint64) (uint64, int64, error) {
	c.writes.Add(1)
	revision, epoch, err := c.Records.Write(ctx, key, rec, expected)
	if errors.Is(err, lease.ErrOvertaken) {
		c.overtaken.Add(1)
	}
	return revision, epoch, err
}

// Repeats of a settlement that come together cost the records of one settlement, and read
// nothing: they wait for their turn, and find it done.
func TestRepeatsCostTheRecordsOfOneSettlement(t *testing.T) {
	for name, c := range map[string]struct {
		deltas   string
		writes   int64
		consumed int64
	}{
		"debit":  {`{"tpm":100}`, 2, 600},
		"credit": {`{"tpm":-100}`, 1, 400},
		"mixed":  {`{"rpm":1,"tpm":-100}`, 2, 400},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := tpmWorld(t)
			n := w.node(t, Tuning{})
			nc := w.nats.Connect(t)
			token := acquire(t, nc, tokens500).Lease
			calls := new(recordCalls)
			calls.count(n)
			var replies []*nats.Subscription
			for range 100 {
				replies = append(replies, sendAs(t, nc, api.VerbAdjust, "", adjustBody(token, c.deltas)))
			}
			for _, r := range replies {
				require.NotEmpty(t, leaseOf(replyTo(t, r).Data))
			}
			require.Equal(t, c.writes, calls.writes.Load())
			require.Zero(t, calls.reads.Load())
			require.Equal(t, c.consumed, w.consumed(t, "tpm"))
		})
	}
}

// A node that did not make a settlement finds out by its first repeat, and answers the
// others without a message.
func TestRepeatsAtAnotherNode(t *testing.T) {
	w := tpmWorld(t)
	first := w.node(t, Tuning{})
	nc := w.nats.Connect(t)
	debit := adjustBody(acquire(t, nc, tokens500).Lease, `{"tpm":100}`)
	next := ask[api.AdjustReply](t, nc, api.VerbAdjust, debit).Lease
	require.NoError(t, first.stop())
	calls := new(recordCalls)
	calls.count(w.node(t, Tuning{}))
	for range 20 {
		require.Equal(t, next, ask[api.AdjustReply](t, nc, api.VerbAdjust, debit).Lease)
	}
	require.EqualValues(t, 1, calls.writes.Load(), "the guess that nothing was settled")
	require.EqualValues(t, 1, calls.reads.Load())
	require.EqualValues(t, 600, w.consumed(t, "tpm"))
}

// A lease whose operations reach different nodes costs no refused write: a token tells
// that a node's memory of the record is out of date.
func TestALeaseThatMovesBetweenNodes(t *testing.T) {
	w := newWorld(t)
	w.setLimits(t, api.LimitsTarget{Resource: "gpt-4"}, perDay("rpm", 10), perDay("tpm", 100_000))
	calls := new(recordCalls)
	calls.count(w.node(t, Tuning{}))
	calls.count(w.node(t, Tuning{}))
	nc := w.nats.Connect(t)
	token := acquire(t, nc, tokens500).Lease
	for i := range 40 {
		token = ask[api.AdjustReply](t, nc, api.VerbAdjust, adjustBody(token, fmt.Sprintf(`{"tpm":%d}`, i+1))).Lease
	}
	require.Zero(t, calls.overtaken.Load())
	require.True(t, ask[api.ReleaseReply](t, nc, api.VerbRelease, releaseBody(token)).Released)
	require.Zero(t, w.consumed(t, "tpm"))
}

// A caller repeats old settlements of many leases at a node that knows none of them: wrong
// guesses are few, because the node reads after the first.
func TestOldSettlementsAreReadAndNotGuessed(t *testing.T) {
	w := newWorld(t)
	w.setLimits(t, api.LimitsTarget{Resource: "gpt-4"}, perDay("rpm", 1000), perDay("tpm", 1000))
	first := w.node(t, Tuning{})
	nc := w.nats.Connect(t)
	var old []string
	for range 50 {
		old = append(old, adjustBody(acquire(t, nc, `{"entity":"api-key-123","resource":"gpt-4","consume":{"tpm":2}}`).Lease, `{"tpm":-1}`))
		ask[api.AdjustReply](t, nc, api.VerbAdjust, old[len(old)-1])
	}
	require.NoError(t, first.stop())
	n, calls := w.node(t, Tuning{}), new(recordCalls)
	calls.count(n)
	began := time.Now()
	for _, body := range old {
		ask[api.AdjustReply](t, nc, api.VerbAdjust, body)
	}
	require.LessOrEqual(t, calls.overtaken.Load(), 1+int64(time.Since(began)/time.Second), "one a second")
	require.LessOrEqual(t, calls.reads.Load(), int64(len(old)))
	require.EqualValues(t, 50, w.consumed(t, "tpm"))
}

// Settlements of a lease that come faster than the lease is settled are refused beyond a
// bound. They leave the node's other places to others, and a repeat counts once.
func TestTooManySettlementsOfALeaseAreShed(t *testing.T) {
	w := tpmWorld(t)
	n := w.node(t, Tuning{StoreTimeout: maxStoreCall})
	nc := w.nats.Connect(t)
	debit := adjustBody(acquire(t, nc, tokens500).Lease, `{"tpm":100}`)
	sent, release := n.hold(t, fault.Fault{})
	first := sendAs(t, nc, api.VerbAdjust, "", debit)
	<-sent
	const more = 200
	shed := make(chan struct{})
	_, err := nc.Subscribe("shed", func(m *nats.Msg) {
		if e := api.DecodeError(m.Data); e != nil && e.Code == api.CodeOverloaded {
			shed <- struct{}{}
		}
	})
	require.NoError(t, err)
	for range more {
		m := nats.NewMsg(api.Subject(api.DefaultNamespace, api.VerbAdjust))
		m.Data, m.Reply = []byte(debit), "shed"
		require.NoError(t, nc.PublishMsg(m))
	}
	for range more - 127 {
		<-shed
	}
	require.EqualValues(t, 128, n.unsettled.Load())
	release()
	require.NotEmpty(t, leaseOf(replyTo(t, first).Data))
	require.Eventually(t, func() bool { return n.unsettled.Load() == 0 }, patience, tickle)
	require.EqualValues(t, 600, w.consumed(t, "tpm"))
}
