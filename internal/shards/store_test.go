package shards_test

import (
	"fmt"
	"slices"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/tidegate/tidegate/engine/fault"
	"github.com/tidegate/tidegate/internal/config"
	"github.com/tidegate/tidegate/internal/shards"
	"github.com/tidegate/tidegate/internal/table"
	"github.com/tidegate/tidegate/pkg/bucket"
)

func TestDoublingsKeepWhatIsLeft(t *testing.T) {
	w := newWorld(t)
	w.spent(4, perDay("rpm", 600))
	for from := 1; from < 8; from *= 2 {
		tree, err := w.store.Double(t.Context(), testKey(0), from)
		require.NoError(t, err)
		require.Len(t, tree, 2*from)
		require.Len(t, tree, tree.Wanted())
		require.EqualValues(t, 596_000, w.left("rpm"))
	}
	for _, b := range w.tree() {
		require.Equal(t, 8, b.Level)
		require.Zero(t, b.TTL, "a bucket of several shards does not expire")
	}
	tree, err := w.store.Shrink(t.Context(), testKey(0), 1)
	require.NoError(t, err)
	require.Len(t, tree, 1)
	require.EqualValues(t, 596_000, w.left("rpm"))
	require.EqualValues(t, 4000, tree[0].Find("rpm").Consumed, "the counters of shards that go are dropped, not added twice")
}

// outcomes are all that can become of one request.
func outcomes() map[string][]fault.Fault {
	return map[string][]fault.Fault{
		"applied":                 nil,
		"failed":                  {fault.InternalError()},
		"failed, but applied":     {fault.InternalErrorAfter()},
		"reply lost":              {{Kind: fault.ReplyLost}},
		"reply lost, then failed": {{Kind: fault.ReplyLost}, fault.InternalError(), {Kind: fault.Unreachable}},
		"throttled":               {fault.Throttling(), fault.Throttling()},
		"conflict":                {fault.TransactionConflict()},
		"cancelled by a conflict": {fault.TransactionCanceled("None", "TransactionConflict")},
		"unreachable":             {{Kind: fault.Unreachable}},
	}
}

// Whatever becomes of a request of a step, the step is done once, and the sum of what
// is drawn is the same before and after, to the last millitoken.
func TestStepsAreDoneOnceWhateverBecomesOfARequest(t *testing.T) {
	for name, faults := range outcomes() {
		for _, debt := range []int64{4, 601, 607} {
			t.Run(fmt.Sprintf("%s, %d spent", name, debt), func(t *testing.T) {
				w := newWorld(t)
				w.spent(debt, perDay("rpm", 600), perDay("tpm", 7))
				drawn := w.drawn("rpm")
				for from := 1; from < 8; from *= 2 {
					w.Fail("TransactWriteItems", faults...)
					tree, err := w.store.Double(t.Context(), testKey(0), from)
					require.NoError(t, err)
					require.Len(t, tree, 2*from)
					require.Equal(t, drawn, w.drawn("rpm"))
					require.Equal(t, 600_000-debt*1000, w.left("rpm"))
				}
				for to := 4; to >= 1; to /= 2 {
					w.Fail("TransactWriteItems", faults...)
					w.Fail("UpdateItem", faults...)
					tree, err := w.store.Shrink(t.Context(), testKey(0), to)
					require.NoError(t, err)
					require.Len(t, tree, to)
					require.Equal(t, drawn, w.drawn("rpm"))
				}
			})
		}
	}
}

// What is spent between the read and the step is spent after it, too.
func TestStepsKeepWhatIsSpentMeanwhile(t *testing.T) {
	w := newWorld(t)
	w.spent(4, perDay("rpm", 600))
	w.Before("TransactWriteItems", func() { require.True(t, w.spend(0, "rpm", 10)) })
	_, err := w.store.Double(t.Context(), testKey(0), 1)
	require.NoError(t, err)
	require.EqualValues(t, 586_000, w.left("rpm"))
	require.Equal(t, 1, w.Calls("TransactWriteItems"), "a spend does not get in the way of a split")

	w.Before("TransactWriteItems", func() { // more than half: the split as planned would leave a debt
		require.True(t, w.spend(1, "rpm", 250))
	})
	_, err = w.store.Double(t.Context(), testKey(0), 2)
	require.NoError(t, err)
	require.EqualValues(t, 336_000, w.left("rpm"))

	w.Before("TransactWriteItems", func() { require.True(t, w.spend(3, "rpm", 5)) })
	_, err = w.store.Shrink(t.Context(), testKey(0), 2)
	require.NoError(t, err)
	require.EqualValues(t, 331_000, w.left("rpm"))
}

func TestDoublersAtOnceMakeOneStep(t *testing.T) {
	for range 5 {
		w := newWorld(t)
		w.spent(4, perDay("rpm", 600))
		for from := 1; from < 8; from *= 2 {
			var doublers sync.WaitGroup
			for range 3 {
				store := w.another()
				doublers.Go(func() {
					tree, err := store.Double(t.Context(), testKey(0), from)
					if err != nil || len(tree) != 2*from {
						t.Errorf("double %d: %d shards, %v", from, len(tree), err)
					}
				})
			}
			doublers.Wait()
			require.Len(t, w.tree(), 2*from)
			require.EqualValues(t, 596_000, w.left("rpm"))
		}
	}
}

// Who still takes a merged shard for alive finds that it is gone; nothing brings it back.
func TestAMergedShardNeverComesBackByALateWriter(t *testing.T) {
	w := newWorld(t)
	w.spent(4, perDay("rpm", 600))
	before := w.divide(4)
	_, err := w.store.Shrink(t.Context(), testKey(0), 2)
	require.NoError(t, err)

	late, ok := w.planSpend(before.Find(3), "rpm", 1)
	require.True(t, ok)
	require.False(t, w.commit(late))
	credit := &table.Commit{
		Key: testKey(3), WriteUnits: 1, Nonce: w.nonce(),
		Limits: []table.LimitChange{{Name: "rpm", Change: bucket.Change{Amount: -1, Min: -1 << 63, Max: 1<<63 - 1}, Consumed: -1}},
	}
	require.False(t, w.commit(credit))
	applied, err := w.store.Transact(t.Context(), shards.PlanSplit(w.now(), w.tree().Find(1), w.nonce()).Writes(w.Table))
	require.NoError(t, err)
	require.False(t, applied, "a split of a child that is not wanted")
	applied, err = w.store.Transact(t.Context(), shards.PlanSplit(w.now(), before.Find(1), w.nonce()).Writes(w.Table))
	require.NoError(t, err)
	require.False(t, applied)
	there, err := w.store.SplitOff(t.Context(), testKey(3))
	require.NoError(t, err)
	require.False(t, there)
	require.Len(t, w.tree(), 2)
	require.EqualValues(t, 596_000, w.left("rpm"))
}

func TestAShardThatIsWantedIsNotMerged(t *testing.T) {
	w := newWorld(t)
	w.spent(4, perDay("rpm", 600))
	tree := w.divide(2)
	applied, err := w.store.Transact(t.Context(), shards.PlanMerge(w.now(), tree[0], tree[1], w.nonce()).Writes(w.Table))
	require.NoError(t, err)
	require.False(t, applied)
	require.Len(t, w.tree(), 2)
}

// A merge that was planned while fewer were wanted is refused once more are wanted,
// whichever shards it merges.
func TestAMergeIsRefusedOnceTheShardIsWantedAgain(t *testing.T) {
	for _, into := range []int{0, 1} {
		w := newWorld(t)
		w.spent(4, perDay("rpm", 600))
		w.divide(4)
		w.Fail("TransactWriteItems", slices.Repeat([]fault.Fault{{Kind: fault.Unreachable}}, 8)...)
		_, err := w.store.Shrink(t.Context(), testKey(0), 2)
		require.Error(t, err)
		w.Forgive("TransactWriteItems")
		tree := w.tree()
		require.Equal(t, 2, tree.Wanted())
		planned := shards.PlanMerge(w.now(), tree[into], tree[into+2], w.nonce())
		_, err = w.store.Double(t.Context(), testKey(0), 2)
		require.NoError(t, err)

		applied, err := w.store.Transact(t.Context(), planned.Writes(w.Table))
		require.NoError(t, err)
		require.False(t, applied)
		require.Len(t, w.tree(), 4)
		require.EqualValues(t, 596_000, w.left("rpm"))
	}
}

// A merge that somebody stopped in the middle is no hindrance to a doubling.
func TestDoublingMeetsShardsThatAreNotMergedYet(t *testing.T) {
	w := newWorld(t)
	w.spent(4, perDay("rpm", 600))
	w.divide(8)
	w.Fail("TransactWriteItems", slices.Repeat([]fault.Fault{{Kind: fault.Unreachable}}, 8)...)
	_, err := w.store.Shrink(t.Context(), testKey(0), 2)
	require.Error(t, err)
	require.Equal(t, 2, w.tree().Wanted())
	require.Len(t, w.tree(), 8)
	tree, err := w.store.Double(t.Context(), testKey(0), 2)
	require.NoError(t, err)
	require.Equal(t, 4, tree.Wanted())
	require.Len(t, tree, 8, "nothing is split that is still to be merged")
	for _, b := range tree {
		require.Equal(t, 8, b.Level)
	}
	tree, err = w.store.Shrink(t.Context(), testKey(0), 4)
	require.NoError(t, err)
	require.Len(t, tree, 4)
	require.EqualValues(t, 596_000, w.left("rpm"))
}

// A limit that was removed is split and merged like any other; one of the two may
// have forgotten it meanwhile, because it was full.
func TestForgottenLimitsAreMergedAsFull(t *testing.T) {
	for _, forgets := range []int{0, 1} {
		w := newWorld(t)
		w.spent(0, perDay("old", 100), perDay("rpm", 600))
		tree := w.divide(2)
		require.True(t, w.spend(1-forgets, "old", 20))
		item := tree[forgets]
		item.Limits = item.Limits[1:]
		w.put(item)
		_, err := w.store.Shrink(t.Context(), testKey(0), 1)
		require.NoError(t, err)
		require.EqualValues(t, 80_000, w.left("old"))
		require.EqualValues(t, 600_000, w.left("rpm"))
	}
}

func TestStepsAreRefused(t *testing.T) {
	w := newWorld(t)
	_, err := w.store.Double(t.Context(), testKey(0), 1)
	require.ErrorIs(t, err, shards.ErrNoBucket)
	_, err = w.store.Double(t.Context(), testKey(0), bucket.MaxShards)
	require.ErrorIs(t, err, shards.ErrTooMany)
	w.spent(0, perDay("rpm", 600))
	tree := w.divide(2)
	w.Fail("TransactWriteItems", slices.Repeat([]fault.Fault{{Kind: fault.ReplyLost}}, 8)...)
	_, err = w.store.Double(t.Context(), testKey(0), 2)
	require.ErrorIs(t, err, shards.ErrUnknown)
	tree[1] = w.tree().Find(1)
	tree[1].Fingerprint = "other"
	w.put(tree[1])
	_, err = w.store.Shrink(t.Context(), testKey(0), 1)
	require.ErrorIs(t, err, shards.ErrUnsynced)
}

// spending costs so many tokens of rpm, and nothing of tpm.
func spending(tokens int64) shards.Costs {
	return func(limit string) (int64, bool) {
		if limit == "rpm" {
			return tokens * bucket.Milli, true
		}
		return 0, limit == "tpm"
	}
}

func TestAMultiSpendTakesOnceWhateverBecomesOfTheRequest(t *testing.T) {
	for name, faults := range outcomes() {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.spent(0, perDay("rpm", 100), perDay("tpm", 7))
			w.divide(8)
			g := w.tree().PlanMultiSpend(w.now(), spending(60), w.nonce())
			w.Fail("TransactWriteItems", faults...)
			applied, err := w.store.Transact(t.Context(), g.Writes(w.Table))
			require.NoError(t, err)
			require.True(t, applied)
			require.EqualValues(t, 40_000, w.left("rpm"))
			for _, b := range w.tree() {
				l := b.Find("rpm")
				require.InDelta(t, 5000, l.Window(b.Shard(), w.now()).Balance(l.Drawn), 500, "what is left is even, to the token")
				require.Zero(t, l.Consumed%bucket.Milli, "whole tokens are taken where that is possible")
			}
			require.Nil(t, w.tree().PlanMultiSpend(w.now(), spending(41), w.nonce()))
		})
	}
}

func TestAMultiSpendIsRefusedWhereAShardIsShortByNow(t *testing.T) {
	w := newWorld(t)
	w.spent(0, perDay("rpm", 100), perDay("tpm", 7))
	w.divide(2)
	g := w.tree().PlanMultiSpend(w.now(), spending(60), w.nonce())
	w.Before("TransactWriteItems", func() { require.True(t, w.spend(1, "rpm", 30)) })
	applied, err := w.store.Transact(t.Context(), g.Writes(w.Table))
	require.NoError(t, err)
	require.False(t, applied)
	require.EqualValues(t, 70_000, w.left("rpm"), "all shards or none")
}

// Random histories of steps and spends on a bucket that refills: it never holds
// more than one that was never divided, and no step mints anything.
func TestHistoriesMintNothing(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		w := newWorld(t)
		l := bucket.Limit{Name: "rpm", Capacity: 100_003, Refill: 7, Period: 13}
		w.spent(rapid.Int64Range(0, 120).Draw(r, "spent"), l)
		whole := w.tree()[0].Find("rpm").Drawn
		for range rapid.IntRange(1, 12).Draw(r, "steps") {
			w.elapsed.Add(rapid.Int64Range(0, 20_000).Draw(r, "wait"))
			tree := w.tree()
			before := w.left("rpm")
			switch rapid.IntRange(0, 3).Draw(r, "step") {
			case 0:
				if n := tree.Wanted(); n < 8 {
					_, err := w.store.Double(t.Context(), testKey(0), n)
					require.NoError(r, err)
					require.LessOrEqual(r, w.left("rpm"), before)
				}
			case 1:
				_, err := w.store.Shrink(t.Context(), testKey(0), max(1, tree.Wanted()/2))
				require.NoError(r, err)
				require.LessOrEqual(r, w.left("rpm"), before)
			default:
				tokens := rapid.Int64Range(1, 20).Draw(r, "cost")
				if w.spend(rapid.IntRange(0, len(tree)-1).Draw(r, "shard"), "rpm", tokens) {
					tally := bucket.NewTally(l.Window(bucket.Whole(), w.now()), whole)
					require.True(r, tally.Spend(tokens*bucket.Milli), "a shard admitted what the whole would not have")
					whole = tally.Change().Apply(whole)
				}
			}
		}
	})
}

func TestSharesServeWhatRequestsCost(t *testing.T) {
	free := func(string) int64 { return 0 }
	for count, serves := range map[int]bool{1: true, 2: true, 4: true, 8: false, 16: false} {
		require.Equal(t, serves, shards.Serves([]bucket.Limit{perDay("rpm", 5)}, count, free), "5 tokens on %d shards", count)
	}
	ls := []bucket.Limit{perDay("rpm", 600), perDay("tpm", 10_000)}
	cost := func(limit string) int64 { return map[string]int64{"rpm": 1, "tpm": 3000}[limit] * bucket.Milli }
	require.True(t, shards.Serves(ls, 2, cost))
	require.False(t, shards.Serves(ls, 4, cost))
	require.False(t, shards.Serves([]bucket.Limit{perDay("rpm", 1_000_000)}, 64, free))
}

// settings are limits as they are stored.
func settings(ls ...bucket.Limit) *config.Resolved {
	r := &config.Resolved{Limits: ls}
	r.Fingerprint = config.Fingerprint(r)
	return r
}

// Shards of different settings are brought to those that hold, once each, whatever
// becomes of a request, and then they can be merged.
func TestAllShardsAreBroughtToTheirSettings(t *testing.T) {
	for name, faults := range outcomes() {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.spent(4, perDay("rpm", 600))
			other := *w.divide(4)[2]
			other.Fingerprint = "another"
			w.put(&other)
			_, err := w.store.Shrink(t.Context(), testKey(0), 1)
			require.ErrorIs(t, err, shards.ErrUnsynced)

			to := settings(perDay("rpm", 900), perDay("tpm", 8))
			w.Fail("UpdateItem", faults...)
			tree, err := w.store.Sync(t.Context(), testKey(0), to)
			require.NoError(t, err)
			require.True(t, tree.Synced(to.Fingerprint))
			require.EqualValues(t, 596_000, w.left("rpm"), "a raised capacity fills at its rate")
			require.EqualValues(t, 8000, w.left("tpm"))
			tree, err = w.store.Shrink(t.Context(), testKey(0), 1)
			require.NoError(t, err)
			require.Len(t, tree, 1)
			require.EqualValues(t, 596_000, w.left("rpm"))
		})
	}
	w := newWorld(t)
	_, err := w.store.Sync(t.Context(), testKey(0), settings(perDay("rpm", 900)))
	require.ErrorIs(t, err, shards.ErrNoBucket)
}
