package shards_test

import (
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/tidegate/tidegate/engine/fault"
	"github.com/tidegate/tidegate/internal/shards"
	"github.com/tidegate/tidegate/internal/table"
	"github.com/tidegate/tidegate/pkg/bucket"
)

// net is the sum of all balances of a limit, debts included, in millitokens.
func (w *world) net(limit string) (sum int64) {
	w.t.Helper()
	for _, b := range w.tree() {
		l := b.Find(limit)
		sum += l.Window(b.Shard(), w.now()).Balance(l.Drawn)
	}
	return sum
}

// settle spends from a shard whatever it holds, or gives back what was spent: a
// debit for more than 0, a credit for less.
func (w *world) settle(shard int, limit string, tokens int64) {
	w.t.Helper()
	b := w.tree().Find(shard)
	l := b.Find(limit)
	tally := bucket.NewTally(l.Window(b.Shard(), w.now()), l.Drawn)
	if tokens > 0 {
		tally.Debit(tokens * bucket.Milli)
	} else {
		tally.Credit(-tokens * bucket.Milli)
	}
	require.True(w.t, w.commit(&table.Commit{
		Key: b.Key, Guarded: tokens > 0, Level: b.Level, Fingerprint: b.Fingerprint, WriteUnits: 1, Nonce: w.nonce(),
		Limits: []table.LimitChange{{Name: limit, Change: tally.Change(), Consumed: tally.Consumed()}},
	}))
}

// What all shards hold and what was spent, less what was refilled, is the same
// before and after every split and merge, to the millitoken, whatever is spent or
// given back while it is under way, and whatever becomes of its requests.
func TestSplitsAndMergesConserveWhatIsHeldAndSpent(t *testing.T) {
	kinds := outcomes()
	names := slices.Sorted(func(yield func(string) bool) {
		for name := range kinds {
			if !yield(name) {
				return
			}
		}
	})
	rapid.Check(t, func(r *rapid.T) {
		w := newWorld(t)
		l := bucket.Limit{Name: "rpm", Capacity: 1_000_003, Refill: 7, Period: 13}
		spent := rapid.Int64Range(300, 1200).Draw(r, "spent")
		w.spent(0, l)
		w.settle(0, "rpm", spent)
		start := w.now()
		held := func() int64 { return w.net("rpm") + spent*bucket.Milli - (l.Refilled(w.now()) - l.Refilled(start)) }
		before := held()
		for range rapid.IntRange(1, 5).Draw(r, "steps") {
			w.elapsed.Add(rapid.Int64Range(0, 5000).Draw(r, "wait")) // far from full
			fail := names[rapid.IntRange(0, len(names)-1).Draw(r, "outcome")]
			w.Forgive("TransactWriteItems") // what a step without a transaction has not met
			w.Fail("TransactWriteItems", kinds[fail]...)
			meanwhile := rapid.Int64Range(-20, 60).Draw(r, "meanwhile")
			at := rapid.IntRange(0, 7).Draw(r, "shard")
			w.Before("TransactWriteItems", func() {
				if tree := w.tree(); meanwhile != 0 && spent+meanwhile >= 300 {
					w.settle(tree[at%len(tree)].Key.Shard, "rpm", meanwhile)
					spent += meanwhile
				}
			})
			n := w.tree().Wanted()
			var err error
			if up := rapid.Bool().Draw(r, "double"); up && n < 8 {
				_, err = w.store.Double(t.Context(), testKey(0), n)
			} else {
				_, err = w.store.Shrink(t.Context(), testKey(0), max(1, n/2))
			}
			require.NoError(r, err)
			require.Equal(r, before, held(), "after %d shards became %d", n, len(w.tree()))
		}
	})
}

// Tries of a step or multi-shard spend on a bucket from which others spend all the while, as fast
// as 800 times per second and shard: each try meets about four writes between its read
// and its write, if that takes 5 ms.
func triesUnderLoad(t *testing.T, w *world, do func() error) int {
	t.Helper()
	before := w.Calls("TransactWriteItems")
	var spending sync.WaitGroup
	var stop atomic.Bool
	started := make(chan struct{})
	spending.Go(func() {
		tick := time.NewTicker(time.Second / 800)
		defer tick.Stop()
		for n := 0; !stop.Load(); n++ {
			<-tick.C
			for _, b := range w.tree() {
				if c, ok := w.planSpend(b, "rpm", 1); ok {
					w.commit(c) // or another was first
				}
			}
			if n == 3 {
				close(started)
			}
		}
	})
	<-started
	require.NoError(t, do())
	stop.Store(true)
	spending.Wait()
	return w.Calls("TransactWriteItems") - before
}

func TestSplitsAndMultiSpendsCommitUnderLoadWithinThreeTriesInTheMedian(t *testing.T) {
	w := newWorld(t)
	w.spent(4, perDay("rpm", 1_000_000))
	w.Faults.Match(func(operation string, _ []byte) fault.Fault {
		if operation == "TransactWriteItems" { // the spends between the read and it
			return fault.Fault{Delay: 5 * time.Millisecond}
		}
		return fault.Fault{}
	})
	var splits, spends []int
	for range 7 {
		_, err := w.store.Shrink(t.Context(), testKey(0), 1)
		require.NoError(t, err)
		splits = append(splits, triesUnderLoad(t, w, func() error {
			_, err := w.store.Double(t.Context(), testKey(0), 1)
			return err
		}))
		spends = append(spends, triesUnderLoad(t, w, func() error {
			for {
				tree, err := w.store.Read(t.Context(), testKey(0), 0)
				if err != nil {
					return err
				}
				g := tree.PlanMultiSpend(w.now(), spending(1000), w.nonce())
				applied, err := w.store.Transact(t.Context(), g.Writes(w.Table))
				if applied || err != nil {
					return err
				}
			}
		}))
	}
	slices.Sort(splits)
	slices.Sort(spends)
	t.Logf("tries of splits %v, of spends %v", splits, spends)
	require.LessOrEqual(t, splits[len(splits)/2], 3)
	require.LessOrEqual(t, spends[len(spends)/2], 3)
}

// Shards that are not wanted any more go, also where some that are wanted were not
// split off yet.
func TestMergingEndsWithTheShardsThatAreWanted(t *testing.T) {
	w := newWorld(t)
	w.spent(4, perDay("rpm", 600))
	for from := 1; from < 8; from *= 2 { // shard 0 alone is split
		zero := w.tree().Find(0)
		split := shards.PlanSplit(w.now(), zero, w.nonce())
		split.Want = table.WantChange{From: zero.Want, To: 2 * from}
		applied, err := w.store.Transact(t.Context(), split.Writes(w.Table))
		require.NoError(t, err)
		require.True(t, applied)
	}
	require.True(t, w.tree().Lacks())
	tree, err := w.store.Shrink(t.Context(), testKey(0), 4)
	require.NoError(t, err)
	require.Len(t, tree, 3)
	require.Nil(t, tree.Find(4))
	require.True(t, tree.Lacks())
	tree, err = w.store.Spread(t.Context(), testKey(0))
	require.NoError(t, err)
	require.Len(t, tree, 4)
	require.False(t, tree.Lacks())
	require.EqualValues(t, 596_000, w.left("rpm"))
}
