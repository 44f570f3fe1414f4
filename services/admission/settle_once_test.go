package admission

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/stretchr/testify/require"

	"github.com/tidegate/tidegate/engine/fault"
	"github.com/tidegate/tidegate/pkg/api"
	"github.com/tidegate/tidegate/services/admission/lease"
)

const whole = `{"entity":"api-key-123","resource":"gpt-4","consume":{"rpm":1,"tpm":1000}}`

// loseOneWrite applies the next write of a bucket and loses its reply; until the faults
// are taken away, the store cannot say so.
func loseOneWrite(n *node) {
	var lost atomic.Bool
	n.faults.Match(func(op string, _ []byte) fault.Fault {
		switch {
		case op == "UpdateItem" && lost.CompareAndSwap(false, true):
			return fault.Fault{Kind: fault.ReplyLost}
		case lost.Load():
			return fault.Fault{Kind: fault.Unreachable}
		}
		return fault.Fault{}
	})
}

// takeAll admits as much of tpm as the bucket holds, in hundreds.
func takeAll(t *testing.T, nc *nats.Conn) (admitted int64) {
	t.Helper()
	for acquire(t, nc, `{"entity":"api-key-123","resource":"gpt-4","consume":{"tpm":100}}`).Allowed {
		admitted += 100
	}
	return admitted
}

// An adjust that spends of one limit and gives back of another is written, its outcome
// stays unknown, and the caller repeats it: the credit is given once.
func TestAMixedAdjustOfUnknownOutcomeGivesItsCreditOnce(t *testing.T) {
	w := tpmWorld(t)
	n := w.node(t, Tuning{StoreTimeout: maxStoreCall})
	nc := w.nats.Connect(t)
	lease := acquire(t, nc, whole).Lease
	loseOneWrite(n)
	mixed := adjustBody(lease, `{"rpm":1,"tpm":-1000}`)
	require.Equal(t, api.CodeUnavailable, refused(t, nc, api.VerbAdjust, mixed, patience).Code)
	n.faults.Match(nil)
	again := ask[api.AdjustReply](t, nc, api.VerbAdjust, mixed)
	admitted := 1000 + takeAll(t, nc)
	require.True(t, ask[api.ReleaseReply](t, nc, api.VerbRelease, releaseBody(again.Lease)).Released)
	require.LessOrEqual(t, admitted+takeAll(t, nc), int64(2000), "P1: the capacity, and one credit of 1000")
}

// One level of a cascade cannot be written: the repeat writes that level alone, and
// gives the credits of no level again.
func TestAMixedAdjustOfACascadeGivesItsCreditOnce(t *testing.T) {
	w := newWorld(t)
	w.under(t, "child", "parent")
	w.setLimits(t, own("child"), perDay("rpm", 100), perDay("tpm", 1000))
	w.setLimits(t, own("parent"), perDay("rpm", 100), perDay("tpm", 10000))
	n := w.node(t, Tuning{StoreTimeout: maxStoreCall})
	nc := w.nats.Connect(t)
	body := spending("child", `{"rpm":1,"tpm":500}`)
	mine := acquire(t, nc, body).Lease
	acquire(t, nc, body)
	mixed := adjustBody(mine, `{"rpm":1,"tpm":-100}`)
	writeOf(n, "parent", 1, fault.Fault{Kind: fault.Unreachable})
	require.Equal(t, api.CodeUnavailable, refused(t, nc, api.VerbAdjust, mixed, patience).Code)
	n.faults.Match(nil)
	again := ask[api.AdjustReply](t, nc, api.VerbAdjust, mixed)
	for _, entity := range []string{"child", "parent"} {
		require.Eventually(t, func() bool { // the parent's refund waits for its next write
			b := w.item(t, entity, "gpt-4")
			return b.Find("rpm").Consumed == 3000 && b.Find("tpm").Consumed == 900_000
		}, patience, tickle, entity)
	}
	require.True(t, ask[api.ReleaseReply](t, nc, api.VerbRelease, releaseBody(again.Lease)).Released)
	for _, entity := range []string{"child", "parent"} {
		b := w.item(t, entity, "gpt-4")
		require.EqualValues(t, 1000, b.Find("rpm").Consumed, "the other caller's")
		require.EqualValues(t, 500_000, b.Find("tpm").Consumed)
	}
}

// The store is healthy and slow, and the caller in a hurry: it repeats its settlement
// although nothing failed, as often as it likes.
func TestACallerInAHurryMintsNothing(t *testing.T) {
	w := newWorld(t)
	w.setLimits(t, api.LimitsTarget{Resource: "gpt-4"}, perDay("rpm", 1000), perDay("tpm", 1000))
	n := w.node(t, Tuning{StoreTimeout: maxStoreCall})
	nc := w.nats.Connect(t)
	lease := acquire(t, nc, whole).Lease
	admitted := int64(1000)
	n.faults.Match(func(op string, _ []byte) fault.Fault {
		if op == "UpdateItem" {
			return fault.Fault{Delay: 60 * time.Millisecond}
		}
		return fault.Fault{}
	})
	for range 3 {
		mixed := adjustBody(lease, `{"rpm":1,"tpm":-1000}`)
		hurried := nats.NewMsg(api.Subject(api.DefaultNamespace, api.VerbAdjust))
		hurried.Data = []byte(mixed)
		hurried.Header.Set(api.HeaderTimeout, api.FormatTimeout(40*time.Millisecond))
		_, err := nc.RequestMsg(hurried, patience)
		require.NoError(t, err)
		again := send(t, nc, api.VerbAdjust, mixed, patience)
		if again.Header.Get(api.HeaderErrorCode) != "" {
			break // it holds nothing any more
		}
		lease = leaseOf(again.Data)
		if acquire(t, nc, whole).Allowed {
			admitted += 1000
		}
	}
	require.LessOrEqual(t, admitted, int64(2000), "P1: the capacity of a day, and 1000 given back once")
}

// A credit that the store throws back stays until it is written: the caller's time does
// not end it.
func TestAThrottledCreditIsWrittenLater(t *testing.T) {
	w := tpmWorld(t)
	n := w.node(t, Tuning{StoreTimeout: maxStoreCall})
	nc := w.nats.Connect(t)
	lease := acquire(t, nc, tokens500).Lease
	always(n, fault.Throttling(), "UpdateItem")
	for range 2 {
		m := send(t, nc, api.VerbRelease, releaseBody(lease), 300*time.Millisecond)
		require.Empty(t, m.Header.Get(api.HeaderErrorCode), "its record is stored: %s", m.Data)
	}
	require.EqualValues(t, 500, w.consumed(t, "tpm"), "nothing was written")
	n.faults.Match(nil)
	require.Eventually(t, func() bool { return w.consumed(t, "tpm") == 0 }, patience, tickle)
	require.True(t, ask[api.ReleaseReply](t, nc, api.VerbRelease, releaseBody(lease)).Released)
	require.Zero(t, w.consumed(t, "tpm"))
}

// A node that stops writes the refunds that wait first.
func TestAStopFlushesRefunds(t *testing.T) {
	w := tpmWorld(t)
	n := w.node(t, Tuning{StoreTimeout: maxStoreCall})
	nc := w.nats.Connect(t)
	lease := acquire(t, nc, tokens500).Lease
	always(n, fault.Throttling(), "UpdateItem")
	send(t, nc, api.VerbRelease, releaseBody(lease), 100*time.Millisecond)
	n.faults.Match(nil)
	require.NoError(t, n.stop())
	require.Zero(t, w.consumed(t, "tpm"))
}

// Debits of the wire's largest amount and their releases, many at once: no count leaves
// its bounds, and the bucket stays readable.
func TestLargeSettlementsLeaveABucketReadable(t *testing.T) {
	w := newWorld(t)
	w.setLimits(t, api.LimitsTarget{Resource: "gpt-4"}, perDay("tpm", 1_000_000))
	w.node(t, Tuning{})
	const leases = 256
	one := `{"entity":"api-key-123","resource":"gpt-4","consume":{"tpm":1}}`
	nc := w.nats.Connect(t)
	var wg sync.WaitGroup
	for range leases {
		wg.Go(func() {
			lease := acquire(t, nc, one).Lease
			m := send(t, nc, api.VerbAdjust, adjustBody(lease, fmt.Sprintf(`{"tpm":%d}`, int64(api.MaxAmount))), patience)
			if m.Header.Get(api.HeaderErrorCode) == "" {
				lease = leaseOf(m.Data)
			} else {
				require.Equal(t, api.CodeExceedsDebt, api.DecodeError(m.Data).Code)
			}
			require.True(t, ask[api.ReleaseReply](t, nc, api.VerbRelease, releaseBody(lease)).Released)
		})
		if acquire(t, nc, one).Lease == "" { // in debt until the releases arrive
			wg.Wait()
		}
	}
	wg.Wait()
	require.True(t, acquire(t, nc, one).Allowed)
	require.GreaterOrEqual(t, w.consumed(t, "tpm"), int64(0))
	reset := send(t, nc, api.VerbBucketReset, `{"entity":"api-key-123","resource":"gpt-4"}`, patience)
	require.Empty(t, reset.Header.Get(api.HeaderErrorCode), string(reset.Data))
}

// A debit of a limit that the item has no more is dropped, and the lease does not hold
// it: when the limit is back, nobody gets back what was never spent.
func TestADroppedDebitIsNotHeld(t *testing.T) {
	w := newWorld(t)
	target := api.LimitsTarget{Resource: "gpt-4"}
	fast := api.Limit{Name: "tpm", Capacity: 1000, RefillAmount: 1000, RefillPeriodSeconds: 1}
	w.setLimits(t, target, perDay("rpm", 1000), fast)
	w.node(t, Tuning{})
	nc := w.nats.Connect(t)
	lease := acquire(t, nc, `{"entity":"api-key-123","resource":"gpt-4","consume":{"rpm":1,"tpm":1}}`).Lease
	w.forgets = true // what the removed limit had counted
	w.setLimits(t, target, perDay("rpm", 1000))
	w.tell(t, target)
	require.Eventually(t, func() bool { // dropped once it is full again
		acquire(t, nc, one)
		return w.item(t, "api-key-123", "gpt-4").Find("tpm") == nil
	}, patience, 10*time.Millisecond)
	lease = ask[api.AdjustReply](t, nc, api.VerbAdjust, adjustBody(lease, `{"tpm":1000}`)).Lease
	w.setLimits(t, target, perDay("rpm", 1000), perDay("tpm", 1000))
	w.tell(t, target)
	whole := `{"entity":"api-key-123","resource":"gpt-4","consume":{"tpm":1000}}`
	require.Eventually(t, func() bool {
		return send(t, nc, api.VerbAcquire, whole, patience).Header.Get(api.HeaderErrorCode) == ""
	}, patience, 10*time.Millisecond)
	require.Equal(t, api.CodeExceedsLease, refused(t, nc, api.VerbAdjust, adjustBody(lease, `{"tpm":-1000}`), patience).Code)
	ask[api.ReleaseReply](t, nc, api.VerbRelease, releaseBody(lease))
	require.False(t, acquire(t, nc, whole).Allowed, "the lease spent one token of tpm, ever")
}

// Two debits of the largest amount and their releases do not fill a drained bucket, at
// no level that they reach.
func TestLargeDebitsAndTheirReleasesFillNoBucket(t *testing.T) {
	w := newWorld(t)
	w.under(t, "child", "parent")
	w.setLimits(t, own("child"), perDay("tpm", 1000))
	w.setLimits(t, own("parent"), perDay("tpm", 1000))
	w.node(t, Tuning{})
	nc := w.nats.Connect(t)
	net := int64(0) // spent by acquires and debits, less what was given back
	spend := func(tokens int64) string {
		reply := acquire(t, nc, spending("child", fmt.Sprintf(`{"tpm":%d}`, tokens)))
		if reply.Allowed {
			net += tokens
		}
		return reply.Lease
	}
	for range 3 {
		a, b := spend(1), spend(1)
		if a == "" || b == "" {
			break
		}
		for spend(100) != "" {
		}
		for _, token := range []*string{&a, &b} {
			m := send(t, nc, api.VerbAdjust, adjustBody(*token, fmt.Sprintf(`{"tpm":%d}`, int64(api.MaxAmount))), patience)
			if m.Header.Get(api.HeaderErrorCode) == "" {
				*token = leaseOf(m.Data)
				net += api.MaxAmount
			}
		}
		for _, token := range []string{a, b} {
			before := w.item(t, "child", "gpt-4").Find("tpm").Consumed
			ask[api.ReleaseReply](t, nc, api.VerbRelease, releaseBody(token))
			net -= (before - w.item(t, "child", "gpt-4").Find("tpm").Consumed) / 1000
		}
		require.LessOrEqual(t, net, int64(1001), "P1: 1000 a day")
		require.Equal(t, net*1000, w.item(t, "parent", "gpt-4").Find("tpm").Consumed)
	}
}

// Each write of a record is tried as stored, not stored, and stored without saying so:
// whatever its caller is told, repeats lead to one settlement.
func TestSettlementsThroughEveryFaultOfTheirRecords(t *testing.T) {
	for _, c := range []struct {
		name, deltas string
		writes       []error
		consumed     int64 // of tpm, after the call
		held         bool  // a release gives the debit back
	}{
		{"credit, stored", `{"tpm":-100}`, nil, 400, true},
		{"credit, not stored", `{"tpm":-100}`, []error{lease.ErrNotStored}, 400, true},
		{"credit, long not stored", `{"tpm":-100}`, slices.Repeat([]error{lease.ErrNotStored}, 15), 400, true},
		{"credit, unacknowledged", `{"tpm":-100}`, []error{errUnacknowledged}, 400, true},
		{"credit, unacknowledged twice", `{"tpm":-100}`, []error{errUnacknowledged, errUnacknowledged}, 400, true},
		{"mixed, not stored", `{"rpm":1,"tpm":-100}`, []error{lease.ErrNotStored}, 400, true},
		{"mixed, unacknowledged", `{"rpm":1,"tpm":-100}`, []error{errUnacknowledged}, 400, true},
		{"mixed, its end not stored", `{"rpm":1,"tpm":-100}`, []error{nil, lease.ErrNotStored}, 400, true},
		{"mixed, its end unacknowledged", `{"rpm":1,"tpm":-100}`, []error{nil, errUnacknowledged}, 400, true},
		{"debit, stored", `{"tpm":100}`, nil, 600, true},
		{"debit, its end unacknowledged", `{"tpm":100}`, []error{nil, errUnacknowledged}, 600, true},
		{"debit, its end not stored", `{"tpm":100}`, []error{nil, lease.ErrNotStored}, 600, false},
		{"debit, not stored", `{"tpm":100}`, []error{lease.ErrNotStored}, 600, false},
		{"debit, unacknowledged", `{"tpm":100}`, []error{errUnacknowledged}, 600, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			w := tpmWorld(t)
			n := w.node(t, Tuning{StoreTimeout: 50 * time.Millisecond})
			nc := w.nats.Connect(t)
			token := acquire(t, nc, tokens500).Lease
			n.leases.Records = &faultyRecords{Records: n.leases.Records, writes: inTurn(c.writes...), reads: fine}
			m := send(t, nc, api.VerbAdjust, adjustBody(token, c.deltas), patience)
			require.Empty(t, m.Header.Get(api.HeaderErrorCode), string(m.Data))
			require.Equal(t, c.consumed, w.consumed(t, "tpm"))
			require.True(t, ask[api.ReleaseReply](t, nc, api.VerbRelease, releaseBody(leaseOf(m.Data))).Released)
			left := int64(0)
			if !c.held {
				left = 100
			}
			require.Equal(t, left, w.consumed(t, "tpm"))
		})
	}
}

// While records cannot be reached, debits count and are answered with the same token.
// Whatever gives anything back is refused as a whole.
func TestSettlementsWithoutRecords(t *testing.T) {
	w := tpmWorld(t)
	n := w.node(t, Tuning{})
	nc := w.nats.Connect(t)
	token := acquire(t, nc, `{"entity":"api-key-123","resource":"gpt-4","consume":{"tpm":100}}`).Lease
	var back atomic.Bool
	away := func(err error) func() error {
		return func() error {
			if back.Load() {
				return nil
			}
			return err
		}
	}
	n.leases.Records = &faultyRecords{Records: n.leases.Records, writes: away(lease.ErrNotStored), reads: away(errUnacknowledged)}
	more := ask[api.AdjustReply](t, nc, api.VerbAdjust, adjustBody(token, `{"tpm":50}`))
	require.Equal(t, token, more.Lease, "nothing of the debit can be given back")
	require.EqualValues(t, 150, w.consumed(t, "tpm"))
	require.Equal(t, api.CodeUnavailable, refused(t, nc, api.VerbAdjust, adjustBody(token, `{"rpm":1,"tpm":-40}`), time.Second).Code)
	require.Equal(t, api.CodeUnavailable, refused(t, nc, api.VerbRelease, releaseBody(token), time.Second).Code)
	require.EqualValues(t, 150, w.consumed(t, "tpm"), "never half done")
	require.EqualValues(t, 0, w.consumed(t, "rpm"))
	back.Store(true)
	require.True(t, ask[api.ReleaseReply](t, nc, api.VerbRelease, releaseBody(token)).Released)
	require.EqualValues(t, 50, w.consumed(t, "tpm"))
}

// Two requests for one lease meet: the second waits for the debits of the first, and
// answers as a repeat. Its caller's time ends that wait with a 408.
func TestASettlementWaitsForAnotherOfItsLease(t *testing.T) {
	w := tpmWorld(t)
	n := w.node(t, Tuning{StoreTimeout: maxStoreCall})
	nc := w.nats.Connect(t)
	token := acquire(t, nc, tokens500).Lease
	sent, release := n.hold(t, fault.Fault{})
	debit := adjustBody(token, `{"tpm":100}`)
	first := sendAs(t, nc, api.VerbAdjust, "", debit)
	<-sent
	require.Equal(t, api.CodeDeadlineExceeded, refused(t, nc, api.VerbAdjust, debit, 100*time.Millisecond).Code)
	require.Equal(t, api.CodeDeadlineExceeded, refused(t, nc, api.VerbRelease, releaseBody(token), 100*time.Millisecond).Code)
	second := sendAs(t, nc, api.VerbAdjust, "", debit)
	release()
	a, b := replyTo(t, first), replyTo(t, second)
	require.NotEmpty(t, leaseOf(a.Data), string(a.Data))
	require.Equal(t, leaseOf(a.Data), leaseOf(b.Data))
	require.EqualValues(t, 600, w.consumed(t, "tpm"))
}

// A node dies between the record and the debits: once its time is over, a repeat writes
// the debits that are left, and gives the credit no second time.
func TestANodeDiesWithinASettlement(t *testing.T) {
	w := tpmWorld(t)
	dies := w.node(t, Tuning{StoreTimeout: 500 * time.Millisecond, DrainTimeout: 100 * time.Millisecond})
	nc := w.nats.Connect(t)
	token := acquire(t, nc, tokens500).Lease
	mixed := adjustBody(token, `{"rpm":1,"tpm":-100}`)
	stored := make(chan struct{})
	dies.leases.Records = &hookedRecords{Records: dies.leases.Records, write: func(ctx context.Context, _ int32, store storeRecord) (uint64, int64, error) {
		if _, _, err := store(); err != nil {
			return 0, 0, err
		}
		close(stored)
		<-ctx.Done() // the node gets no further
		return 0, 0, ctx.Err()
	}}
	sendAs(t, nc, api.VerbAdjust, "", mixed)
	<-stored
	require.NoError(t, dies.stop())
	require.EqualValues(t, 1, w.consumed(t, "rpm"))
	require.EqualValues(t, 500, w.consumed(t, "tpm"))

	w.node(t, Tuning{StoreTimeout: 500 * time.Millisecond})
	require.Equal(t, api.CodeDeadlineExceeded, refused(t, nc, api.VerbAdjust, mixed, 100*time.Millisecond).Code, "it may be alive")
	next := ask[api.AdjustReply](t, nc, api.VerbAdjust, mixed).Lease
	require.EqualValues(t, 2, w.consumed(t, "rpm"))
	require.EqualValues(t, 500, w.consumed(t, "tpm"), "the credit died with the node: its tokens stay spent")
	require.True(t, ask[api.ReleaseReply](t, nc, api.VerbRelease, releaseBody(next)).Released)
	require.EqualValues(t, 0, w.consumed(t, "rpm"))
	require.EqualValues(t, 100, w.consumed(t, "tpm"))
}
