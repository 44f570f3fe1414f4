package admission

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tidegate/tidegate/engine/fault"
	"github.com/tidegate/tidegate/pkg/api"
	"github.com/tidegate/tidegate/pkg/bucket"
)

func tokensOf(tokens int64) api.Amounts { return api.Amounts{{Name: "rpm", Tokens: tokens}} }

// debtWorld has two buckets of 1,000 tokens in 1,000 seconds, "whole" of one shard and
// "divided" of so many, and a node on a manual time that knows them.
func debtWorld(t *testing.T, count int) (*world, *manual, *node) {
	t.Helper()
	w, m := newManualWorld(t)
	w.setLimits(t, api.LimitsTarget{Resource: "gpt-4"}, api.Limit{Name: "rpm", Capacity: 1000, RefillAmount: 1000, RefillPeriodSeconds: 1000})
	n := w.node(t, Tuning{})
	for _, entity := range []string{"whole", "divided"} {
		require.True(t, admits(t, n.spend(w, entity, 0)))
	}
	w.divide(t, "divided", count)
	m.pass(2 * maxDenialAge) // and the node reads it again
	require.True(t, admits(t, n.spend(w, "divided", 0)))
	return w, m, n
}

// owe spends two tokens and then debits so many for them.
func (n *node) owe(t *testing.T, w *world, entity string, tokens int64) (lease result) {
	t.Helper()
	lease = n.spend(w, entity, 2)
	require.True(t, admits(t, lease))
	for _, res := range n.give(w, entity, lease, tokensOf(2), tokens/2) {
		require.NoError(t, res.err)
	}
	return lease
}

// A debt blocks a divided bucket as it blocks a whole one: callers are told the same
// balance and the same wait, at any moment, and no sooner and no later is it over.
func TestADebtBlocksAtAnyNumberOfShards(t *testing.T) {
	for _, count := range []int{2, 4, 32} {
		w, m, n := debtWorld(t, count)
		nc := w.nats.Connect(t)
		for _, entity := range []string{"whole", "divided"} {
			n.owe(t, w, entity, 10_000)
		}
		denied := 0
		for over := false; !over; {
			for _, cost := range []int64{0, 1, 30, 900} {
				whole, divided := n.spend(w, "whole", cost), n.spend(w, "divided", cost)
				require.Equal(t, admits(t, whole), admits(t, divided), "%d tokens", cost)
				if over = whole.verdict == verdictCommit; over {
					break
				}
				denied++
				statuses, wait, _ := whole.verdictOf(tokensOf(cost))
				same, waits, _ := divided.verdictOf(tokensOf(cost))
				require.Equal(t, wait, waits, "%d tokens", cost)
				require.Equal(t, statuses[0].Available, same[0].Available)
				require.Negative(t, same[0].Available)
			}
			seen := map[string]int64{}
			for _, entity := range []string{"whole", "divided"} {
				status := ask[api.StatusReply](t, nc, api.VerbStatus, `{"entity":"`+entity+`","resource":"gpt-4"}`)
				shown := ask[api.BucketReply](t, nc, api.VerbBucketGet, `{"entity":"`+entity+`","resource":"gpt-4"}`)
				require.Equal(t, status.Limits[0].Available, shown.Limits[0].Available)
				seen[entity] = status.Limits[0].Available
			}
			for _, row := range ask[api.CapacityReply](t, nc, api.VerbCapacity, `{"resource":"gpt-4"}`).Entities {
				require.Equal(t, seen[row.Entity], row.Limits[0].Available)
			}
			require.Equal(t, seen["whole"], seen["divided"])
			m.pass(1500 * time.Second)
		}
		require.Greater(t, denied, 20)
	}
}

// A debt that the other shards cover counts against them: all shards together are
// spent to nothing, and no further.
func TestACoveredDebtCountsAgainstTheOtherShards(t *testing.T) {
	w, _, n := debtWorld(t, 4)
	n.owe(t, w, "divided", 700)
	require.Len(t, w.tree(t, "divided"), 4, "nothing is merged for a debt that is covered")
	admitted := int64(0)
	for _, cost := range []int64{200, 50, 30, 10, 5, 2, 1} {
		for admits(t, n.spend(w, "divided", cost)) {
			admitted += cost
		}
	}
	require.EqualValues(t, 298, admitted)
	require.Zero(t, bucket.Floor(w.leftOf(t, "divided", "rpm")))
	require.Len(t, w.tree(t, "divided"), 4)
}

// What was debited and is given back is there again, although the shard that it was
// debited at is gone.
func TestADebtThatIsGivenBackIsGone(t *testing.T) {
	w, _, n := debtWorld(t, 4)
	lease := n.owe(t, w, "divided", 10_000)
	require.False(t, admits(t, n.spend(w, "divided", 0)))
	require.Len(t, w.tree(t, "divided"), 1)
	for _, res := range n.give(w, "divided", lease, tokensOf(2), -5001) {
		require.NoError(t, res.err)
	}
	require.EqualValues(t, 1000, bucket.Floor(w.leftOf(t, "divided", "rpm")))
	require.True(t, admits(t, n.spend(w, "divided", 1000)))
}

// Nobody has to ask: the node that wrote the debit merges the shards, whether or not it
// has acquired from the bucket lately.
func TestADebtThatNobodyAsksAboutIsMerged(t *testing.T) {
	for _, knows := range []bool{true, false} {
		w, m, n := debtWorld(t, 4)
		lease := n.spend(w, "divided", 2)
		if !knows {
			m.pass(2 * maxDenialAge)
			n = w.node(t, Tuning{})
		}
		n.give(w, "divided", lease, tokensOf(2), 5000)
		require.Eventually(t, func() bool { return len(w.tree(t, "divided")) == 1 }, patience, tickle)
	}
}

// Whatever becomes of the merges, nothing is admitted in debt, and the bucket holds and
// owes what it did.
func TestMergesOfADebtThroughEveryFault(t *testing.T) {
	for name, faults := range map[string][]fault.Fault{
		"reply lost":          {{Kind: fault.ReplyLost}, {}, {Kind: fault.ReplyLost}},
		"failed, but applied": {fault.InternalErrorAfter(), {}, fault.InternalErrorAfter()},
		"failed":              {fault.InternalError(), fault.InternalError()},
		"throttled":           {fault.Throttling(), fault.Throttling()},
		"conflict":            {fault.TransactionConflict(), fault.TransactionConflict()},
	} {
		t.Run(name, func(t *testing.T) {
			w, _, n := debtWorld(t, 4)
			lease := n.spend(w, "divided", 2)
			next := 0
			n.faults.Match(func(operation string, _ []byte) fault.Fault {
				if operation != "TransactWriteItems" || next >= len(faults) {
					return fault.Fault{}
				}
				next++
				return faults[next-1]
			})
			n.give(w, "divided", lease, tokensOf(2), 5000)
			require.Eventually(t, func() bool {
				require.False(t, admits(t, n.spend(w, "divided", 0)))
				return len(w.tree(t, "divided")) == 1
			}, patience, tickle)
			require.EqualValues(t, 1000-2-10_000, bucket.Floor(w.leftOf(t, "divided", "rpm")))
		})
	}
}

// What remains: a node that saw the shards before the debit spends what the others hold
// for a second, if nobody can merge them, and nothing from then on.
func TestANodeThatDoesNotKnowOfADebt(t *testing.T) {
	w, m, debtor := debtWorld(t, 4)
	other := w.node(t, Tuning{})
	noMerges := func(operation string, _ []byte) fault.Fault {
		if operation == "TransactWriteItems" {
			return fault.Throttling()
		}
		return fault.Fault{}
	}
	debtor.faults.Match(noMerges)
	other.faults.Match(noMerges)
	require.True(t, admits(t, other.spend(w, "divided", 0))) // and sees the others full
	debtor.owe(t, w, "divided", 10_000)

	admitted := int64(0)
	for shard := range 4 {
		for _, cost := range []int64{100, 10, 1} {
			for other.admitsAt(w, shard, cost) {
				admitted += cost
			}
		}
	}
	require.LessOrEqual(t, admitted, int64(750), "what three full shards hold")
	m.pass(maxDenialAge + time.Millisecond)
	for range 4 {
		res := other.spend(w, "divided", 0)
		require.False(t, admits(t, res))
		statuses, _, _ := res.verdictOf(nil)
		require.Less(t, statuses[0].Available, int64(-9000))
	}
}

// admitsAt reports whether a spend is admitted, after the node last used a shard.
func (n *node) admitsAt(w *world, shard int, tokens int64) bool {
	b := n.router.member(w.bucketKey("divided")).bucket()
	b.lastShard.Store(int32(shard)) //nolint:gosec // below MaxShards
	return n.spend(w, "divided", tokens).verdict == verdictCommit
}
