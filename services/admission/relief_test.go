package admission

import (
	"bytes"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tidegate/tidegate/engine/fault"
	"github.com/tidegate/tidegate/internal/table"
	"github.com/tidegate/tidegate/pkg/api"
)

// hotShard0 throttles the writes of shard 0 while hot says so.
func hotShard0(reason string, hot func() bool) func(string, []byte) fault.Fault {
	return func(operation string, body []byte) fault.Fault {
		if operation == "UpdateItem" && bytes.Contains(body, []byte(`#gpt-4#0"`)) && hot() {
			return fault.Throttling(fault.Reason{Reason: reason, Resource: "table/tidegate"})
		}
		return fault.Fault{}
	}
}

func TestAHotShardIsDivided(t *testing.T) {
	w := newWorld(t)
	w.setLimits(t, api.LimitsTarget{Resource: "gpt-4"}, perDay("rpm", 100))
	n := w.node(t, Tuning{})
	nc := w.nats.Connect(t)
	require.True(t, acquire(t, nc, rpmOf("e", 1)).Allowed)
	n.faults.Match(hotShard0(fault.TableWriteKeyRange, func() bool { return w.item(t, "e", "gpt-4").Level == 1 }))
	require.True(t, acquire(t, nc, rpmOf("e", 1)).Allowed)
	require.Len(t, w.tree(t, "e"), 2)
	require.InDelta(t, 98_000, w.leftOf(t, "e", "rpm"), 100)
}

// More shards are no help against a throttled index, nor to limits that are too
// small to be shared, nor to requests that cost more than a share.
func TestAThrottleThatShardsDoNotHelpDividesNothing(t *testing.T) {
	for name, tt := range map[string]struct {
		reason       string
		tokens, cost int64
	}{
		"index":        {fault.IndexWriteKeyRange, 100, 1},
		"small limit":  {fault.TableWriteKeyRange, 1, 0},
		"large cost":   {fault.TableWriteKeyRange, 100, 60},
		"no reason is": {"", 100, 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.setLimits(t, api.LimitsTarget{Resource: "gpt-4"}, perDay("rpm", tt.tokens))
			n := w.node(t, Tuning{})
			nc := w.nats.Connect(t)
			require.True(t, acquire(t, nc, rpmOf("e", 0)).Allowed)
			cold := time.Now().Add(300 * time.Millisecond)
			n.faults.Match(hotShard0(tt.reason, func() bool { return time.Now().Before(cold) }))
			require.True(t, acquire(t, nc, rpmOf("e", tt.cost)).Allowed)
			require.NoError(t, n.stop())
			require.Len(t, w.tree(t, "e"), 1)
		})
	}
}

// heated throttles all writes of the bucket while it is hot.
type heated struct {
	hot       atomic.Bool
	throttled atomic.Int64
}

func (h *heated) match(operation string, body []byte) fault.Fault {
	if (operation == "UpdateItem" || operation == "PutItem") && bytes.Contains(body, []byte(`BUCKET#`)) && h.hot.Load() {
		h.throttled.Add(1)
		return fault.Throttling(fault.Reason{Reason: fault.TableWriteKeyRange, Resource: "table/tidegate"})
	}
	return fault.Fault{}
}

// underHeat spends a token at each node while all writes are throttled, until enough
// says so, and returns when all of them are admitted.
func (h *heated) underHeat(t *testing.T, w *world, nodes []*node, enough func() bool) {
	t.Helper()
	h.hot.Store(true)
	var spending sync.WaitGroup
	for _, n := range nodes {
		spending.Go(func() {
			if res := n.spend(w, "e", 1); res.err != nil || res.verdict != verdictCommit {
				t.Errorf("not admitted: %v", res.err)
			}
		})
	}
	require.Eventually(t, enough, patience, tickle)
	h.hot.Store(false)
	spending.Wait()
	for _, n := range nodes {
		n.atRest(t)
	}
}

func TestNodesThatDoubleAtOnceMakeOneStep(t *testing.T) {
	w, m := newManualWorld(t)
	w.setLimits(t, api.LimitsTarget{Resource: "gpt-4"}, perDay("rpm", 600))
	h := new(heated)
	nodes := []*node{w.node(t, Tuning{}), w.node(t, Tuning{}), w.node(t, Tuning{})}
	for _, n := range nodes {
		require.True(t, admits(t, n.spend(w, "e", 1)))
		n.faults.Match(h.match)
	}
	for count := 2; count <= 8; count *= 2 {
		m.pass(settleTime)
		h.underHeat(t, w, nodes, func() bool { return len(w.tree(t, "e")) >= count && h.throttled.Load() > int64(10*count) })
		require.Len(t, w.tree(t, "e"), count, "one step")
		for _, n := range nodes { // they take note of it
			n.router.member(w.bucketKey("e")).bucket().relieved.Store(&relief{wanted: count, at: n.clock.Mono()})
		}
	}
	require.InDelta(t, 600_000-(3+9)*1000, w.leftOf(t, "e", "rpm"), 100)
}

// A node that was not throttled before doubles at once when it is, if what others
// doubled has had its time.
func TestANodeThatSawADoublingDoesNotWaitForItAgain(t *testing.T) {
	w, m := newManualWorld(t)
	w.setLimits(t, api.LimitsTarget{Resource: "gpt-4"}, perDay("rpm", 600))
	a, b := w.node(t, Tuning{}), w.node(t, Tuning{})
	for _, n := range []*node{a, b} {
		require.True(t, admits(t, n.spend(w, "e", 1)))
	}
	for i, n := range []*node{a, b} {
		h := new(heated)
		n.faults.Match(h.match)
		h.underHeat(t, w, []*node{n}, func() bool { return len(w.tree(t, "e")) == 2<<i })
		require.True(t, admits(t, b.spend(w, "e", 1)), "which sees the shards")
		m.pass(settleTime)
	}
}

func TestALimitOfFiveIsNotDividedBeyondWhatServesIt(t *testing.T) {
	w, m := newManualWorld(t)
	w.setLimits(t, api.LimitsTarget{Resource: "gpt-4"}, perDay("rpm", 5))
	h := new(heated)
	n := w.node(t, Tuning{})
	require.True(t, admits(t, n.spend(w, "e", 0)))
	n.faults.Match(h.match)
	for _, count := range []int{2, 4, 4} {
		m.pass(2 * settleTime)
		before := h.throttled.Load()
		h.underHeat(t, w, []*node{n}, func() bool { return len(w.tree(t, "e")) >= count && h.throttled.Load() > before+4 })
		require.Len(t, w.tree(t, "e"), count)
	}
	require.InDelta(t, 2000, w.leftOf(t, "e", "rpm"), 100)
	require.True(t, admits(t, n.spend(w, "e", 2)))
	require.False(t, admits(t, n.spend(w, "e", 1)))
}

// Recent requests say what a share has to hold, not the one that was throttled.
func TestWhatRequestsUsuallyCostKeepsABucketWhole(t *testing.T) {
	w, m := newManualWorld(t)
	w.setLimits(t, api.LimitsTarget{Resource: "gpt-4"}, perDay("rpm", 10_000))
	h := new(heated)
	n := w.node(t, Tuning{})
	for range 2 * busyRequests {
		res := n.spend(w, "e", 6000)
		require.True(t, admits(t, res))
		n.give(w, "e", res, api.Amounts{{Name: "rpm", Tokens: 6000}}, -1)
	}
	n.faults.Match(h.match)
	m.pass(settleTime)
	h.underHeat(t, w, []*node{n}, func() bool { return h.throttled.Load() > 4 })
	require.Len(t, w.tree(t, "e"), 1)
}

// Whatever becomes of the requests that double, the bucket holds what it held.
func TestDoublingFailsOnTheSafeSide(t *testing.T) {
	for name, faults := range map[string][]fault.Fault{
		"failed before":       {fault.InternalError()},
		"failed, but applied": {fault.InternalErrorAfter()},
		"reply lost":          {{Kind: fault.ReplyLost}},
		"conflict":            {fault.TransactionConflict(), fault.TransactionConflict()},
		"throttled":           {fault.Throttling()},
		"unreachable":         {{Kind: fault.Unreachable}, {Kind: fault.Unreachable}},
		"never known":         {{Kind: fault.ReplyLost}, {Kind: fault.Unreachable}, {Kind: fault.Unreachable}, {Kind: fault.Unreachable}, {Kind: fault.Unreachable}, {Kind: fault.Unreachable}, {Kind: fault.Unreachable}, {Kind: fault.Unreachable}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w, m := newManualWorld(t)
			w.setLimits(t, api.LimitsTarget{Resource: "gpt-4"}, perDay("rpm", 600))
			h, next := new(heated), atomic.Int64{}
			n := w.node(t, Tuning{})
			require.True(t, admits(t, n.spend(w, "e", 1)))
			n.faults.Match(func(operation string, body []byte) fault.Fault {
				if i := int(next.Load()); operation == "TransactWriteItems" && i < len(faults) {
					next.Add(1)
					return faults[i]
				}
				return h.match(operation, body)
			})
			m.pass(settleTime)
			h.underHeat(t, w, []*node{n}, func() bool { return len(w.tree(t, "e")) == 2 })
			require.True(t, admits(t, n.spend(w, "e", 1)))
			require.Len(t, w.tree(t, "e"), 2)
			require.InDelta(t, 597_000, w.leftOf(t, "e", "rpm"), 100)
		})
	}
}

// throttledShard throttles the writes of one shard for good, with a reason or without.
func throttledShard(shard int, reasons ...fault.Reason) func(string, []byte) fault.Fault {
	suffix := fmt.Appendf(nil, `#gpt-4#%d"`, shard)
	return func(operation string, body []byte) fault.Fault {
		if (operation == "UpdateItem" || operation == "PutItem") && bytes.Contains(body, suffix) {
			return fault.Throttling(reasons...)
		}
		return fault.Fault{}
	}
}

func TestANodeThatKnowsNothingFindsAnotherShardWhileTheFirstIsThrottled(t *testing.T) {
	for name, reasons := range map[string][]fault.Reason{
		"hot":       {{Reason: fault.TableWriteKeyRange, Resource: "table/tidegate"}},
		"no reason": nil,
	} {
		t.Run(name, func(t *testing.T) {
			w := shardedWorld(t, 100, 2)
			n := w.node(t, Tuning{})
			n.faults.Match(throttledShard(0, reasons...))
			b := n.router.member(w.bucketKey("e")).bucket()
			b.shardsThen.Store(2) // its home is shard 1
			b.lastShard.Store(1)
			reply := acquire(t, w.nats.Connect(t), rpmOf("e", 1))
			require.True(t, reply.Allowed)
			require.EqualValues(t, 99, reply.Limits[0].Available)
			require.EqualValues(t, 1000, w.tree(t, "e").Find(1).Find("rpm").Consumed)
		})
	}
}

func TestAThrottledShardIsLeftAloneWhileOthersServe(t *testing.T) {
	w, m := ratedWorld(t, 1000, 10, 4)
	n := w.node(t, Tuning{})
	require.True(t, admits(t, n.spend(w, "e", 1)))
	b := n.router.member(w.bucketKey("e")).bucket()
	last := int(b.lastShard.Load())
	throttles := atomic.Int64{}
	hot := throttledShard(last, fault.Reason{Reason: fault.TableWriteKeyRange, Resource: "table/tidegate"})
	n.faults.Match(func(operation string, body []byte) fault.Fault {
		f := hot(operation, body)
		if f.Kind != fault.None {
			throttles.Add(1)
		}
		return f
	})
	for range 20 {
		m.pass(coolTime / 10)
		require.True(t, admits(t, n.spend(w, "e", 1)))
		require.NotEqual(t, last, int(b.lastShard.Load()))
	}
	require.LessOrEqual(t, throttles.Load(), int64(3), "it is not asked again before it may have cooled")
	n.atRest(t)
	require.Len(t, w.tree(t, "e"), 4, "more of them would not help while others rest")
}

// A shard that several nodes have come upon is left before its partition throttles
// them, as its own counter tells.
func TestAShardThatIsWrittenTooFastIsLeft(t *testing.T) {
	for name, tt := range map[string]struct {
		perSecond int64 // of others
		left      bool
	}{"fast": {1000, true}, "not so fast": {800, false}} {
		t.Run(name, func(t *testing.T) {
			w, m := ratedWorld(t, 1000, 10, 4)
			n := w.node(t, Tuning{})
			b := n.router.member(w.bucketKey("e")).bucket()
			spend := func() int {
				require.True(t, admits(t, n.spend(w, "e", 1)))
				return int(b.lastShard.Load())
			}
			first := spend()
			for range 2 {
				m.pass(paceTime)
				seen := w.tree(t, "e").Find(first)
				others := table.Commit{
					Key: seen.Key, Guarded: true, Level: seen.Level, Fingerprint: seen.Fingerprint,
					WriteUnits: tt.perSecond * int64(paceTime) / int64(time.Second), Nonce: "others.1",
				}
				_, err := w.client.UpdateItem(t.Context(), others.Input(w.table))
				require.NoError(t, err)
				require.Equal(t, first, spend())
			}
			require.Equal(t, tt.left, spend() != first)
		})
	}
}
