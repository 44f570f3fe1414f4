package bucket_test

import (
	"fmt"
	"math"
	"math/big"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/tidegate/tidegate/pkg/bucket"
)

// operation is one step of a history of a limit.
type operation struct {
	kind   string // spend, debit, credit or capDebt
	amount int64  // millitokens
}

func (o operation) String() string { return fmt.Sprintf("%s %d", o.kind, o.amount) }

func anyOperation(most int64) *rapid.Generator[operation] {
	return rapid.Custom(func(t *rapid.T) operation {
		return operation{
			kind:   rapid.SampledFrom([]string{"spend", "spend", "debit", "credit", "capDebt"}).Draw(t, "kind"),
			amount: rapid.Int64Range(0, most).Draw(t, "amount"),
		}
	})
}

// do applies the operation to a tally.
func (o operation) do(tally *bucket.Tally) (ok bool) {
	switch o.kind {
	case "spend":
		return tally.Spend(o.amount)
	case "capDebt":
		return tally.CapDebt(o.amount)
	case "debit":
		return tally.Debit(o.amount)
	case "credit":
		tally.Credit(o.amount)
	}
	return true
}

// rule is an operation by the rules alone, one drawn count at a time: whether it
// is allowed, which form it takes, and the count after it.
func (o operation) rule(w bucket.Window, drawn int64) (ok bool, form string, after int64) {
	full, deepest := w.Refilled-w.Capacity, w.Refilled+bucket.MaxDebt
	idle := drawn < full
	switch o.kind {
	case "credit":
		if drawn-o.amount < full-bucket.MaxDebt {
			return true, "clamp", full - bucket.MaxDebt
		}
		return true, "add", drawn - o.amount
	case "capDebt":
		return drawn <= w.Refilled+o.amount, "keep", drawn
	case "debit":
		if drawn > deepest-o.amount {
			return false, "refuse", drawn
		}
	case "spend":
		if min(w.Capacity, w.Refilled-drawn) < o.amount {
			return false, "refuse", drawn
		}
		if o.amount == 0 {
			return true, "keep", drawn
		}
	}
	if idle {
		return true, "idle", full + o.amount
	}
	return true, "busy", drawn + o.amount
}

// run is what the rules make of a drawn count, with a trace of decisions: two
// counts with one trace are treated alike by every operation, up to the operation
// that first sets the count, after which it no longer matters what it was.
func run(w bucket.Window, ops []operation, drawn int64) (after int64, trace string) {
	set := false
	for _, op := range ops {
		ok, form, next := op.rule(w, drawn)
		if !set {
			trace += fmt.Sprint(op.kind, ok, form, ";")
		}
		set = set || form == "idle" || form == "clamp"
		drawn = next
	}
	return drawn, trace
}

// TestTallyIsItsOperations checks that a composed change equals its operations
// for every drawn count in its range, and that the range is as wide as it can be.
func TestTallyIsItsOperations(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := smallWindow(t)
		drawn := drawnNear(w).Draw(t, "drawn")
		switch rapid.IntRange(0, 9).Draw(t, "far") {
		case 0:
			drawn = w.Refilled + bucket.MaxDebt - rapid.Int64Range(-9, 99).Draw(t, "above deepest")
		case 1:
			drawn = w.Full() - bucket.MaxDebt + rapid.Int64Range(-9, 99).Draw(t, "above lowest")
		}
		tally := bucket.NewTally(w, drawn)
		var ops []operation // those that a writer keeps: the ones not refused
		for _, op := range rapid.SliceOfN(anyOperation(w.Capacity+9), 1, 6).Draw(t, "ops") {
			before, consumed := tally.Change(), tally.Consumed()
			ok, _, after := op.rule(w, before.Apply(drawn))
			require.Equal(t, ok, op.do(&tally), "%v", op)
			if !ok {
				require.Equal(t, before, tally.Change(), "a refused %v changes nothing", op)
				require.Equal(t, consumed, tally.Consumed())
				continue
			}
			ops = append(ops, op)
			require.Equal(t, after, tally.Change().Apply(drawn))
			require.Equal(t, w.Balance(after), tally.Balance())
		}
		change := tally.Change()
		require.True(t, change.Holds(drawn))
		requireSameAsRules(t, w, ops, drawn, change)
		require.Equal(t, consumption(ops), tally.Consumed())
	})
}

// smallWindow draws a window whose edges are near one another, at any height.
func smallWindow(t *rapid.T) bucket.Window {
	return bucket.Window{
		Refilled: rapid.OneOf(rapid.Int64Range(-50, 50), rapid.Just(int64(1)<<62)).Draw(t, "refilled"),
		Capacity: rapid.Int64Range(0, 40).Draw(t, "capacity"),
	}
}

func consumption(ops []operation) (sum int64) {
	for _, op := range ops {
		switch op.kind {
		case "spend", "debit":
			sum += op.amount
		case "credit":
			sum -= op.amount
		}
	}
	return sum
}

// requireSameAsRules compares a change with the rules within its range, at its
// edges and just outside of it.
func requireSameAsRules(t *rapid.T, w bucket.Window, ops []operation, known int64, change bucket.Change) {
	_, want := run(w, ops, known)
	inside := []int64{known}
	low, high := max(change.Min, known-200), min(change.Max, known+200)
	for range 8 {
		inside = append(inside, rapid.Int64Range(low, high).Draw(t, "inside"))
	}
	if change.Min != math.MinInt64 {
		inside = append(inside, change.Min)
		_, got := run(w, ops, change.Min-1)
		require.NotEqual(t, want, got, "below Min of %+v", change)
	}
	if change.Max != math.MaxInt64 {
		inside = append(inside, change.Max)
		_, got := run(w, ops, change.Max+1)
		require.NotEqual(t, want, got, "above Max of %+v", change)
	}
	for _, drawn := range inside {
		require.True(t, change.Holds(drawn))
		after, got := run(w, ops, drawn)
		require.Equal(t, want, got, "drawn %d, change %+v", drawn, change)
		require.Equal(t, after, change.Apply(drawn), "drawn %d, change %+v", drawn, change)
	}
}

// TestCountsStayWithinBounds checks that debits are refused beyond MaxDebt, and that
// credits leave the count at most MaxDebt below that of a full bucket, at the highest
// counts that can be. Nothing wraps, and each operation that is taken counts in full.
func TestCountsStayWithinBounds(t *testing.T) {
	l := bucket.Limit{Name: "fastest", Capacity: maxCost, Refill: bucket.MaxRate, Period: 1}
	for _, now := range []bucket.Instant{0, century} {
		w := l.Window(bucket.Whole(), now)
		tally := bucket.NewTally(w, w.Full()-1)
		var consumed int64
		refused := 0
		for range 100 {
			before := tally.Balance()
			if !tally.Debit(maxCost) {
				refused++
				require.Less(t, before-maxCost, -bucket.MaxDebt)
				require.Equal(t, before, tally.Balance())
				continue
			}
			consumed += maxCost
			require.Equal(t, before-maxCost, tally.Balance())
			require.Equal(t, consumed, tally.Consumed())
		}
		require.Positive(t, refused)

		tally = bucket.NewTally(w, w.Refilled)
		clamps := 0
		for range 100 {
			if tally.Credit(maxCost) {
				clamps++
			}
			require.GreaterOrEqual(t, tally.Change().Apply(w.Refilled), w.Full()-bucket.MaxDebt)
		}
		require.Positive(t, clamps)
		require.Equal(t, -100*maxCost, tally.Consumed())
	}
}

// naive is a token bucket as it is told: a level that rises with time and stops
// at the capacity, in exact fractions.
type naive struct {
	limit bucket.Limit
	level *big.Rat
	at    bucket.Instant
}

func (n *naive) advance(now bucket.Instant) {
	n.level.Add(n.level, new(big.Rat).Sub(exactRefill(n.limit, now), exactRefill(n.limit, n.at)))
	if full := big.NewRat(n.limit.Capacity, 1); n.level.Cmp(full) > 0 {
		n.level = full
	}
	n.at = now
}

// TestNaiveBucket compares a drawn count with a naive bucket in exact fractions:
// they differ by less than one millitoken, the fraction of a refill count, after
// any history of spends, debits and credits.
func TestNaiveBucket(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		l := smallLimit().Draw(t, "limit")
		if rapid.Bool().Draw(t, "large") {
			l.Capacity, l.Refill, l.Period = l.Capacity*977, l.Refill*1013, l.Period*1009
		}
		now := bucket.Instant(rapid.Int64Range(0, 1<<40).Draw(t, "start"))
		n := naive{limit: l, level: big.NewRat(l.Capacity, 1), at: now}
		drawn := l.Window(bucket.Whole(), now).Full()
		for range rapid.IntRange(1, 40).Draw(t, "steps") {
			now += bucket.Instant(rapid.Int64Range(0, 2*l.FillTime()).Draw(t, "pause") / rapid.Int64Range(1, 20).Draw(t, "of"))
			n.advance(now)
			w := l.Window(bucket.Whole(), now)
			requireNear(t, n.level, w.Balance(drawn))

			tally := bucket.NewTally(w, drawn)
			op := anyOperation(l.Capacity+2).Draw(t, "op")
			ok := op.do(&tally)
			if op.kind == "spend" {
				requireAgrees(t, n.level, op.amount, ok)
			}
			if !ok || op.kind == "capDebt" {
				continue
			}
			drawn = tally.Change().Apply(drawn)
			n.level.Sub(n.level, big.NewRat(consumption([]operation{op}), 1))
			n.advance(now) // a credit stops at the capacity
		}
	})
}

// requireNear checks that a balance is within one millitoken of a level.
func requireNear(t *rapid.T, level *big.Rat, balance int64) {
	d := new(big.Rat).Sub(level, big.NewRat(balance, 1))
	require.Negative(t, d.Abs(d).Cmp(big.NewRat(1, 1)), "level %v, balance %d", level, balance)
}

// requireAgrees checks a verdict wherever a fraction of a millitoken cannot
// change it.
func requireAgrees(t *rapid.T, level *big.Rat, cost int64, ok bool) {
	if level.Cmp(big.NewRat(cost+1, 1)) >= 0 {
		require.True(t, ok, "level %v holds %d", level, cost)
	}
	if level.Cmp(big.NewRat(cost-1, 1)) <= 0 {
		require.False(t, ok, "level %v does not hold %d", level, cost)
	}
}

// Credits of other writers may have lowered the count since it was known. A credit does not
// lower it below the bound that keeps counts within int64.
func TestACreditIsForCountsAboveTheLowest(t *testing.T) {
	w := bucket.Window{Refilled: 1000, Capacity: 1000}
	lowest := w.Full() - bucket.MaxDebt
	tally := bucket.NewTally(w, 500)
	require.False(t, tally.Credit(100))
	require.True(t, tally.Change().Holds(lowest+100))
	require.False(t, tally.Change().Holds(lowest+99))
}
