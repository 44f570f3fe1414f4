package admission

import (
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/tidegate/tidegate/engine/fault"
	"github.com/tidegate/tidegate/internal/config"
	"github.com/tidegate/tidegate/pkg/api"
)

// readFaults are ways in which a read fails.
func readFaults() map[string]fault.Fault {
	return map[string]fault.Fault{
		"throttled":   fault.ThroughputExceeded(fault.Reason{Reason: fault.TableReadKeyRange}),
		"failing":     fault.InternalError(),
		"reply lost":  {Kind: fault.ReplyLost},
		"unreachable": {Kind: fault.Unreachable},
		"hanging":     {Kind: fault.Hangs},
	}
}

// eachFirst strikes the first request of each operation, and no other.
func eachFirst(n *node, f fault.Fault, operations ...string) (struck func() int) {
	var mu sync.Mutex
	var count int
	seen := make(map[string]bool)
	n.faults.Match(func(op string, _ []byte) fault.Fault {
		mu.Lock()
		defer mu.Unlock()
		for _, o := range operations {
			if o == op && !seen[op] {
				seen[op] = true
				count++
				return f
			}
		}
		return fault.Fault{}
	})
	return func() int {
		mu.Lock()
		defer mu.Unlock()
		return count
	}
}

// settled returns when no renewal is under way.
func (n *node) settled(t *testing.T) {
	t.Helper()
	require.Eventually(t, func() bool {
		n.settings.renewals.mu.Lock()
		defer n.settings.renewals.mu.Unlock()
		return n.settings.renewals.running == 0
	}, patience, time.Millisecond)
}

// Known limits serve while they cannot be read again, however many buckets are due at
// once and however old they are; and once they can be, the bucket follows.
func TestKnownLimitsOutliveReadsThatFail(t *testing.T) {
	const buckets = 200
	for name, f := range readFaults() {
		for _, age := range []time.Duration{maxSettingsAge - 1, maxSettingsAge, time.Hour - time.Minute} {
			t.Run(name+"/"+age.String(), func(t *testing.T) {
				t.Parallel()
				w, m := newManualWorld(t)
				rpmPerDay(t, w, 100)
				n := w.node(t, Tuning{StoreTimeout: maxStoreCall})
				entity := func(i int) string { return fmt.Sprintf("e-%d", i) }
				for i := range buckets {
					require.True(t, admits(t, n.spend(w, entity(i), 1)))
				}
				before := n.faults.Counts()["BatchGetItem"].Calls
				m.pass(age)
				always(n, f, "BatchGetItem")
				for range 2 {
					for i := range buckets {
						require.True(t, admits(t, n.spend(w, entity(i), 1)), entity(i))
					}
				}
				n.settled(t)
				require.LessOrEqual(t, n.faults.Counts()["BatchGetItem"].Calls-before, int64(maxRenewals), "the store is asked little while it fails")

				n.faults.Match(nil)
				rpmPerDay(t, w, 50)
				require.Eventually(t, func() bool {
					m.pass(renewalRest)
					return n.spend(w, entity(0), 0).item.Find("rpm").Capacity == 50_000
				}, patience, time.Millisecond)
			})
		}
	}
}

// Buckets that were resolved together are renewed over renewalSpread, none after a
// minute.
func TestRenewalsAreSpread(t *testing.T) {
	const each = 1000
	var early int
	for i := range each {
		age := renewalAge(time.Hour + time.Duration(i)*time.Microsecond)
		require.LessOrEqual(t, age, maxSettingsAge)
		require.Greater(t, age, maxSettingsAge-renewalSpread)
		if age < maxSettingsAge-renewalSpread/2 {
			early++
		}
	}
	require.InDelta(t, each/2, early, each/10)
}

// Renewals by age go beside: a bucket in use does not wait for one.
func TestABucketInUseIsRenewedBeside(t *testing.T) {
	w, m := newManualWorld(t)
	rpmPerDay(t, w, 100)
	n := w.node(t, Tuning{DrainTimeout: time.Millisecond})
	require.True(t, admits(t, n.spend(w, "e", 1)))
	m.pass(maxSettingsAge - tickle)
	always(n, fault.Fault{Kind: fault.Hangs}, "BatchGetItem") // for as long as the test waits for anything
	for range 100 {
		require.True(t, admits(t, n.spend(w, "e", 0)))
	}
	require.EqualValues(t, 2, n.faults.Counts()["BatchGetItem"].Calls)
}

// What is known to have changed admits nothing by the old limits, however long it
// takes to read the new ones; other levels go on.
func TestAChangedLimitAdmitsNothingUntilItIsRead(t *testing.T) {
	for name, f := range readFaults() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			rpmPerDay(t, w, 1000)
			w.setLimits(t, api.LimitsTarget{Resource: "gpt-5"}, perDay("rpm", 1000))
			n := w.node(t, Tuning{StoreTimeout: maxStoreCall})
			nc := w.nats.Connect(t)
			other := strings.Replace(one, "gpt-4", "gpt-5", 1)
			require.True(t, acquire(t, nc, one).Allowed)
			require.True(t, acquire(t, nc, other).Allowed)

			rpmPerDay(t, w, 5)
			n.hear(t)
			always(n, f, "BatchGetItem")
			for range 3 {
				code := api.CodeDeadlineExceeded // on a busy machine, before the limits are asked for
				for code == api.CodeDeadlineExceeded {
					code = refusedWithin(t, nc, one, 100*time.Millisecond).Code
				}
				require.Equal(t, api.CodeUnavailable, code)
				require.True(t, acquire(t, nc, other).Allowed)
			}
			require.EqualValues(t, 1, w.item(t, "api-key-123", "gpt-4").Acquires)
			n.faults.Match(nil)
			require.Equal(t, 5, n.drain(t, nc, one), "what was spent before had overflowed")
		})
	}
}

// A renewal that began before the limits changed brings nothing.
func TestARenewalThatAChangeOvertookIsNotUsed(t *testing.T) {
	w := newWorld(t)
	rpmPerDay(t, w, 10)
	n := w.node(t, Tuning{})
	require.True(t, admits(t, n.spend(w, "e", 1)))
	g := &n.router.member(w.bucketKey("e")).writer.settings
	known := g.last()
	for _, flag := range []*atomic.Bool{&g.outdated, &g.doubted} {
		g.renewing = &renewal{done: make(chan struct{}), resolved: config.Resolved{Fingerprint: "of before"}}
		close(g.renewing.done)
		flag.Store(true)
		g.takeRenewal()
		require.Same(t, known, g.last())
		require.Nil(t, g.renewing)
		flag.Store(false)
	}
}

// After a gap in the feed, or an absence of NATS, changes may have been missed, or
// not: the limits are read again first, and hold where that fails.
func TestLimitsThatMayHaveChangedHoldWhileTheyCannotBeRead(t *testing.T) {
	for name, f := range readFaults() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			rpmPerDay(t, w, 1000)
			n := w.node(t, Tuning{StoreTimeout: maxStoreCall})
			nc := w.nats.Connect(t)
			require.True(t, acquire(t, nc, one).Allowed)
			rpmPerDay(t, w, 5)
			always(n, f, "BatchGetItem", "GetItem")
			n.memory.Missed()
			for range 3 {
				require.True(t, acquire(t, nc, one).Allowed)
			}
			n.faults.Match(nil)
			require.Eventually(t, func() bool { return acquire(t, nc, one).Limits[0].Capacity == 5 }, patience, 10*time.Millisecond)
		})
	}
}

// A cold node's first reads fail: no caller does, however many wait for them.
func TestTheFirstReadsOfAColdNodeMayFail(t *testing.T) {
	for name, f := range readFaults() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			rpmPerDay(t, w, 1000)
			n := w.node(t, Tuning{StoreTimeout: maxStoreCall})
			nc := w.nats.Connect(t)
			struck := eachFirst(n, f, "GetItem", "BatchGetItem") // of the namespace, of the limits
			var wg sync.WaitGroup
			for i := range 100 {
				wg.Go(func() {
					m := natsMsg(api.VerbAcquire, strings.Replace(one, "api-key-123", fmt.Sprintf("e-%d", i%3), 1))
					m.Header.Set(api.HeaderTimeout, api.FormatTimeout(patience))
					reply, err := nc.RequestMsg(m, patience)
					if assert.NoError(t, err) {
						assert.Empty(t, reply.Header.Get(api.HeaderErrorCode), string(reply.Data))
					}
				})
			}
			wg.Wait()
			require.Equal(t, 2, struck())
		})
	}
}

// A child without limits of its own passes on to its parent at any age.
func TestAChildWithoutLimitsOutlivesReadsThatFail(t *testing.T) {
	for name, f := range readFaults() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w, m := newManualWorld(t)
			w.setLimits(t, api.LimitsTarget{Entity: "acme"}, perDay("rpm", 1000))
			n := w.node(t, Tuning{StoreTimeout: maxStoreCall})
			nc := w.nats.Connect(t)
			heard := n.memory.invalidations.Count()
			ask[api.Entity](t, nc, api.VerbEntityCreate, `{"entity":"acme"}`)
			ask[api.Entity](t, nc, api.VerbEntityCreate, `{"entity":"api-key-123","parent":"acme","cascade":true}`)
			require.Eventually(t, func() bool { return n.memory.invalidations.Count() == heard+2 }, patience, time.Millisecond)
			require.True(t, acquire(t, nc, one).Allowed)
			m.pass(2 * maxSettingsAge)
			always(n, f, "BatchGetItem")
			for i := range 3 {
				reply := send(t, nc, api.VerbAcquire, one, patience)
				require.Empty(t, reply.Header.Get(api.HeaderErrorCode), "%d: %s", i, reply.Data)
				m.pass(2 * maxSettingsAge)
			}
		})
	}
}

// A request that names a limit which the bucket may have got meanwhile waits for
// nobody but itself.
func TestAnUnknownLimitFailsNobodyElse(t *testing.T) {
	for name, f := range readFaults() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w, m := newManualWorld(t)
			rpmPerDay(t, w, 1000)
			n := w.node(t, Tuning{StoreTimeout: maxStoreCall})
			nc := w.nats.Connect(t)
			require.True(t, acquire(t, nc, one).Allowed)
			m.pass(refusalAge + tickle)
			always(n, f, "BatchGetItem")
			require.Equal(t, api.CodeUnavailable, refused(t, nc, api.VerbAcquire, spendOf("tpm", 1), patience).Code, "it cannot be told")
			require.True(t, acquire(t, nc, one).Allowed)
			n.faults.Match(nil)
			m.pass(renewalRest + tickle)
			require.Equal(t, api.CodeUnknownLimit, refused(t, nc, api.VerbAcquire, spendOf("tpm", 1), patience).Code)
		})
	}
}

// A status is read again as an acquire's limits are.
func TestAFailedReadFailsNoStatus(t *testing.T) {
	for name, f := range readFaults() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			rpmPerDay(t, w, 10)
			n := w.node(t, Tuning{StoreTimeout: maxStoreCall})
			nc := w.nats.Connect(t)
			require.True(t, acquire(t, nc, one).Allowed)
			struck := eachFirst(n, f, "BatchGetItem")
			reply := ask[api.StatusReply](t, nc, api.VerbStatus, `{"entity":"api-key-123","resource":"gpt-4"}`)
			require.EqualValues(t, 9, reply.Limits[0].Available)
			require.Equal(t, 1, struck())
		})
	}
}
