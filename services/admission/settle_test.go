package admission

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/stretchr/testify/require"

	"github.com/tidegate/tidegate/engine/fault"
	"github.com/tidegate/tidegate/internal/store"
	"github.com/tidegate/tidegate/internal/table"
	"github.com/tidegate/tidegate/pkg/api"
	"github.com/tidegate/tidegate/pkg/keys"
	"github.com/tidegate/tidegate/services/admission/lease"
)

const tokens500 = `{"entity":"api-key-123","resource":"gpt-4","consume":{"rpm":1,"tpm":500}}`

func adjustBody(lease, deltas string) string {
	return fmt.Sprintf(`{"lease":%q,"deltas":%s}`, lease, deltas)
}
func releaseBody(lease string) string { return fmt.Sprintf(`{"lease":%q}`, lease) }

func tpmWorld(t *testing.T) *world {
	t.Helper()
	w := newWorld(t)
	w.setLimits(t, api.LimitsTarget{Resource: "gpt-4"}, perDay("rpm", 10), perDay("tpm", 1000))
	return w
}

func (w *world) consumed(t *testing.T, limit string) int64 {
	t.Helper()
	return w.item(t, "api-key-123", "gpt-4").Find(limit).Consumed / 1000
}

func TestAdjustAndRelease(t *testing.T) {
	w := tpmWorld(t)
	n := w.node(t, Tuning{})
	nc := w.nats.Connect(t)
	first := acquire(t, nc, tokens500).Lease
	more := ask[api.AdjustReply](t, nc, api.VerbAdjust, adjustBody(first, `{"tpm":700}`))
	require.EqualValues(t, -200, more.Limits[1].Available, "a debit may go into debt")
	require.NotEqual(t, first, more.Lease)
	require.EqualValues(t, 1200, w.consumed(t, "tpm"))
	require.False(t, acquire(t, nc, `{"entity":"api-key-123","resource":"gpt-4","consume":{"rpm":1}}`).Allowed, "debt blocks")

	less := ask[api.AdjustReply](t, nc, api.VerbAdjust, adjustBody(more.Lease, `{"tpm":-900}`))
	require.EqualValues(t, 700, less.Limits[1].Available)
	require.True(t, ask[api.ReleaseReply](t, nc, api.VerbRelease, releaseBody(less.Lease)).Released)
	require.EqualValues(t, 0, w.consumed(t, "tpm"))
	require.EqualValues(t, 0, w.consumed(t, "rpm"))
	require.EqualValues(t, 1, w.item(t, "api-key-123", "gpt-4").Acquires)
	require.NoError(t, n.stop(), "a node that has settled stops in its time")
}

// A settlement happens once: a repeat gets the same answer, another operation on
// the same token is a conflict.
func TestSettlementsHappenOnce(t *testing.T) {
	w := tpmWorld(t)
	w.node(t, Tuning{})
	w.node(t, Tuning{})
	nc := w.nats.Connect(t)
	lease := acquire(t, nc, tokens500).Lease
	first := ask[api.AdjustReply](t, nc, api.VerbAdjust, adjustBody(lease, `{"tpm":-100}`))
	for range 5 {
		again := ask[api.AdjustReply](t, nc, api.VerbAdjust, adjustBody(lease, `{"tpm":-100}`))
		require.Equal(t, first, again, "nothing else has happened")
	}
	require.Equal(t, api.CodeLeaseConflict, refused(t, nc, api.VerbAdjust, adjustBody(lease, `{"tpm":-99}`), patience).Code)
	require.EqualValues(t, 400, w.consumed(t, "tpm"))
	for _, token := range []string{lease, first.Lease, lease} { // any token of the lease releases all of it, once
		require.True(t, ask[api.ReleaseReply](t, nc, api.VerbRelease, releaseBody(token)).Released)
	}
	require.EqualValues(t, 0, w.consumed(t, "tpm"))
	require.Equal(t, api.CodeLeaseConflict, refused(t, nc, api.VerbAdjust, adjustBody(first.Lease, `{"tpm":1}`), patience).Code)
}

func TestSettlementsThroughEveryFault(t *testing.T) {
	for name, c := range map[string]struct {
		fault          fault.Fault
		credit, debit  bool  // whether it is answered as done
		given, charged int64 // what the item shows
	}{
		"applied":       {fault.Fault{}, true, true, 100, 100},
		"throttled":     {fault.Throttling(), true, true, 100, 100},
		"no connection": {fault.Fault{Kind: fault.Unreachable}, true, false, 100, 0},
		// The record has the credit, so that it is done: a write of unknown outcome is not repeated.
		"failed before":                    {fault.InternalError(), true, true, 0, 100},
		"failed after":                     {fault.InternalErrorAfter(), true, true, 100, 100},
		"reply lost":                       {fault.Fault{Kind: fault.ReplyLost}, true, true, 100, 100},
		"arrives after the caller gave up": {fault.Fault{Kind: fault.Late, Delay: 1}, true, true, 100, 200},
	} {
		for kind, sign := range map[string]int{"credit": -1, "debit": 1} {
			t.Run(name+"/"+kind, func(t *testing.T) {
				t.Parallel()
				w := tpmWorld(t)
				n, arrive := w.nodeOfLate(t)
				nc := w.nats.Connect(t)
				lease := acquire(t, nc, tokens500).Lease
				once(n, "UpdateItem", c.fault)
				m := send(t, nc, api.VerbAdjust, adjustBody(lease, fmt.Sprintf(`{"tpm":%d}`, 100*sign)), patience)
				arrive()
				n.faults.Wait()
				done, want := c.credit, 500-c.given
				if sign > 0 {
					done, want = c.debit, 500+c.charged
				}
				require.Equal(t, done, m.Header.Get(api.HeaderErrorCode) == "", string(m.Data))
				require.Equal(t, want, w.consumed(t, "tpm"))
			})
		}
	}
}

// A credit is final once its record is stored: its repeats are answered as done, and
// no write gives it a second time.
func TestRepeatsOfCreditsWhoseWriteFailed(t *testing.T) {
	w := tpmWorld(t)
	n := w.node(t, Tuning{StoreTimeout: maxStoreCall})
	nc := w.nats.Connect(t)
	lease := acquire(t, nc, tokens500).Lease
	for _, c := range []struct {
		fault fault.Fault
		left  int64 // consumed after the credit and its repeats
	}{
		{fault.Fault{Kind: fault.Unreachable}, 400},
		{fault.InternalError(), 400}, // of unknown outcome: its tokens stay spent
		{fault.Fault{}, 300},
	} {
		once(n, "UpdateItem", c.fault)
		credit := adjustBody(lease, `{"tpm":-100}`)
		var next string
		for range 3 {
			next = ask[api.AdjustReply](t, nc, api.VerbAdjust, credit).Lease
		}
		require.Equal(t, c.left, w.consumed(t, "tpm"))
		lease = next
	}
}

func TestExpiredLeasesGiveNothingBack(t *testing.T) {
	w := tpmWorld(t)
	w.node(t, Tuning{CreditWindow: time.Millisecond})
	nc := w.nats.Connect(t)
	lease, other := acquire(t, nc, tokens500).Lease, acquire(t, nc, tokens500).Lease
	require.Eventually(t, func() bool {
		m := send(t, nc, api.VerbRelease, releaseBody(lease), patience)
		return api.DecodeError(m.Data).Code == api.CodeExpiredLease
	}, patience, 5*time.Millisecond)
	require.NotEmpty(t, ask[api.AdjustReply](t, nc, api.VerbAdjust, adjustBody(other, `{"tpm":1}`)).Lease, "debits never end")
}

func TestLeasesOfAnotherNamespaceAreForeign(t *testing.T) {
	w := tpmWorld(t)
	n := w.node(t, Tuning{})
	nc := w.nats.Connect(t)
	token, err := n.leases.Issue("BBBBBBBBBBE", testNow, []lease.Level{{
		Entity: "api-key-123", Resource: "gpt-4", Held: []lease.Held{{Limit: "rpm", Tokens: 1}, {Limit: "tpm", Tokens: 500}},
	}})
	require.NoError(t, err)
	require.Equal(t, api.CodeInvalidLease, refused(t, nc, api.VerbRelease, releaseBody(token), patience).Code)
}

// A bucket that is gone is full: a credit has nothing to fill, a debit makes it anew.
func TestSettlingABucketThatIsGone(t *testing.T) {
	w := tpmWorld(t)
	w.node(t, Tuning{})
	nc := w.nats.Connect(t)
	for deltas, want := range map[string]int64{`{"tpm":-100}`: 0, `{"tpm":100}`: 100} {
		lease := acquire(t, nc, tokens500).Lease
		w.remove(t, "api-key-123", "gpt-4")
		require.NotEmpty(t, ask[api.AdjustReply](t, nc, api.VerbAdjust, adjustBody(lease, deltas)).Lease)
		if item := w.item(t, "api-key-123", "gpt-4"); want > 0 {
			require.Equal(t, want*1000, item.Find("tpm").Consumed)
			w.remove(t, "api-key-123", "gpt-4")
		} else {
			require.Nil(t, item)
		}
	}
}

// A debit that would take a limit deeper into debt than it can be is refused as a
// whole; later operations on the lease go on.
func TestDebitsBeyondTheDeepestDebtAreRefused(t *testing.T) {
	w := tpmWorld(t)
	w.node(t, Tuning{})
	nc := w.nats.Connect(t)
	lease := acquire(t, nc, tokens500).Lease
	most := fmt.Sprintf(`{"rpm":1,"tpm":%d}`, int64(api.MaxAmount))
	lease = ask[api.AdjustReply](t, nc, api.VerbAdjust, adjustBody(lease, most)).Lease
	for range 3 {
		e := refused(t, nc, api.VerbAdjust, adjustBody(lease, most), patience)
		require.Equal(t, api.CodeExceedsDebt, e.Code)
		require.Equal(t, 409, e.Status())
		require.EqualValues(t, 500+api.MaxAmount, w.consumed(t, "tpm"))
		require.EqualValues(t, 2, w.consumed(t, "rpm"))
	}
	lease = ask[api.AdjustReply](t, nc, api.VerbAdjust, adjustBody(lease, `{"rpm":2}`)).Lease
	require.True(t, ask[api.ReleaseReply](t, nc, api.VerbRelease, releaseBody(lease)).Released)
	require.Zero(t, w.consumed(t, "tpm"))
	require.Zero(t, w.consumed(t, "rpm"))
}

func (w *world) remove(t *testing.T, entity, resource string) {
	t.Helper()
	w.forgets = true
	key := w.item(t, entity, resource).Key
	_, err := w.client.DeleteItem(t.Context(), &dynamodb.DeleteItemInput{TableName: &w.table, Key: table.KeyItem(key.Key())})
	require.NoError(t, err)
}

// signedBy returns a token as a node signs it with another key.
func signedBy(t *testing.T, key table.SigningKey, token string) string {
	t.Helper()
	raw, err := base64.RawURLEncoding.DecodeString(token)
	require.NoError(t, err)
	message := raw[:len(raw)-signatureBytes]
	copy(message[1:], key.ID[:])
	mac := hmac.New(sha256.New, key.Secret)
	mac.Write(message)
	return base64.RawURLEncoding.EncodeToString(append(message, mac.Sum(nil)[:signatureBytes]...))
}

// Tokens of a key that was made meanwhile are good, also when many come at once;
// while the keys cannot be read again, they are not called forged.
func TestLeasesOfANewKey(t *testing.T) {
	w := tpmWorld(t)
	n := w.node(t, Tuning{})
	nc := w.nats.Connect(t)
	leases := make([]string, 8)
	for i := range leases {
		leases[i] = acquire(t, nc, one).Lease
	}
	fresh := store.NewSigningKey(w.now())
	_, err := w.client.PutItem(t.Context(), table.PutSigningKeyInput(w.table, table.LeaseKeys, fresh))
	require.NoError(t, err)
	for i := range leases {
		leases[i] = signedBy(t, fresh, leases[i])
	}
	always(n, fault.Fault{Kind: fault.Unreachable}, "Query")
	require.Equal(t, api.CodeUnavailable, refused(t, nc, api.VerbRelease, releaseBody(leases[0]), patience).Code)
	n.faults.Match(nil)
	var wg sync.WaitGroup
	for _, lease := range leases {
		wg.Go(func() { require.True(t, ask[api.ReleaseReply](t, nc, api.VerbRelease, releaseBody(lease)).Released) })
	}
	wg.Wait()
	require.EqualValues(t, 0, w.consumed(t, "rpm"))
}

// A settlement that may be applied is not tried again in whole, whatever keeps
// its debit from being written once more.
func TestADoubtfulCreditIsNotGivenAgain(t *testing.T) {
	w := tpmWorld(t)
	n := w.node(t, Tuning{StoreTimeout: maxStoreCall})
	nc := w.nats.Connect(t)
	lease := acquire(t, nc, tokens500).Lease
	acquire(t, nc, tokens500)
	mixed := adjustBody(lease, `{"rpm":1,"tpm":-100}`)
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
	require.Equal(t, api.CodeUnavailable, refused(t, nc, api.VerbAdjust, mixed, patience).Code)
	require.EqualValues(t, 900, w.consumed(t, "tpm"))
	n.faults.Match(nil)
	send(t, nc, api.VerbAdjust, mixed, patience)
	require.EqualValues(t, 900, w.consumed(t, "tpm"), "given back once")
}

// A bucket that a node saw gone may have come back since, by another node.
func TestCreditsOfABucketThatCameBack(t *testing.T) {
	w := tpmWorld(t)
	w.node(t, Tuning{})
	nc := w.nats.Connect(t)
	lease := acquire(t, nc, tokens500).Lease
	w.remove(t, "api-key-123", "gpt-4")
	require.True(t, ask[api.ReleaseReply](t, nc, api.VerbRelease, releaseBody(lease)).Released)
	other := w.elsewhere(t)
	other.node(t, Tuning{})
	lease = acquire(t, other.nats.Connect(t), tokens500).Lease
	require.True(t, ask[api.ReleaseReply](t, nc, api.VerbRelease, releaseBody(lease)).Released)
	require.EqualValues(t, 0, w.consumed(t, "tpm"))
}

// What a settlement names and a node has not seen on the item may have been added
// since, by another node.
func TestSettlingALimitThatWasAddedElsewhere(t *testing.T) {
	w := newWorld(t)
	rpmPerDay(t, w, 10)
	w.node(t, Tuning{})
	nc := w.nats.Connect(t)
	acquire(t, nc, one)
	w.setLimits(t, api.LimitsTarget{Resource: "gpt-4"}, perDay("rpm", 10), perDay("tpm", 1000))
	other := w.elsewhere(t)
	other.node(t, Tuning{})
	first, second := acquire(t, other.nats.Connect(t), tokens500).Lease, acquire(t, other.nats.Connect(t), tokens500).Lease
	require.NotEmpty(t, ask[api.AdjustReply](t, nc, api.VerbAdjust, adjustBody(first, `{"tpm":9}`)).Lease)
	require.EqualValues(t, 1009, w.consumed(t, "tpm"))
	require.True(t, ask[api.ReleaseReply](t, nc, api.VerbRelease, releaseBody(second)).Released)
	require.EqualValues(t, 509, w.consumed(t, "tpm"))
}

// Where the limits are gone but not yet the bucket, settlements that wait beside
// refused acquires still count.
func TestDebitsOfABucketWithoutLimits(t *testing.T) {
	w := tpmWorld(t)
	n := w.node(t, Tuning{})
	nc := w.nats.Connect(t)
	lease := acquire(t, nc, tokens500).Lease
	require.NoError(t, w.limits.Delete(t.Context(), w.ns, api.Principal{}, api.LimitsDeleteRequest{LimitsTarget: api.LimitsTarget{Resource: "gpt-4"}}))
	of := &n.router.member(keys.Bucket{Namespace: w.ns, Entity: "api-key-123", Resource: "gpt-4"}).writer
	of.settings.outdated.Store(true)
	gate, held := make(chan struct{}), make(chan struct{}) // the first resolution waits while others arrive
	var first atomic.Bool
	n.faults.Match(func(op string, _ []byte) fault.Fault {
		if op == "BatchGetItem" && first.CompareAndSwap(false, true) {
			close(held)
			<-gate
		}
		return fault.Fault{}
	})
	var wg sync.WaitGroup
	refusedAcquire := func() {
		require.Equal(t, api.CodeNoLimits, refused(t, nc, api.VerbAcquire, tokens500, patience).Code)
	}
	wg.Go(refusedAcquire)
	<-held
	wg.Go(refusedAcquire)
	wg.Go(func() { ask[api.AdjustReply](t, nc, api.VerbAdjust, adjustBody(lease, `{"tpm":7}`)) })
	require.Eventually(t, func() bool {
		of.mu.Lock()
		defer of.mu.Unlock()
		return len(of.waiting) == 2
	}, patience, time.Millisecond)
	close(gate)
	wg.Wait()
	require.EqualValues(t, 507, w.consumed(t, "tpm"))
}

// leaseOf returns the token of a reply; empty where it has none.
func leaseOf(body []byte) string {
	var reply struct{ Lease string }
	_ = json.Unmarshal(body, &reply)
	return reply.Lease
}
