package admission

import (
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/tidegate/tidegate/internal/config"
	"github.com/tidegate/tidegate/internal/table"
	"github.com/tidegate/tidegate/pkg/api"
	"github.com/tidegate/tidegate/pkg/bucket"
	"github.com/tidegate/tidegate/pkg/keys"
)

const testNow bucket.Instant = 60 * 1000 * 1000 * 1000

func testKey() keys.Bucket {
	return keys.Bucket{Namespace: "AAAAAAAAAAA", Entity: "api-key-1", Resource: "gpt-4"}
}

// perMinute is a limit of so many tokens a minute, with a burst of as many.
func perMinute(name string, tokens int64) bucket.Limit {
	return bucket.Limit{Name: name, Capacity: tokens * bucket.Milli, Refill: tokens * bucket.Milli, Period: 60_000}
}

func testSettings(ls ...bucket.Limit) *config.Resolved {
	return &config.Resolved{Limits: ls, Fingerprint: "print"}
}

func acquireOp(amounts ...api.Amount) operation { return operation{amounts: amounts} }
func settleOp(amounts ...api.Amount) operation  { return operation{settle: true, amounts: amounts} }
func refundOp(amounts ...api.Amount) operation {
	return operation{settle: true, refund: true, amounts: amounts}
}

// itemWith is an item with the given balances in millitokens, in the order of
// the settings' limits.
func itemWith(s *config.Resolved, now bucket.Instant, balances ...int64) *table.Bucket {
	b := fullBucket(now, testKey(), s)
	for i := range b.Limits {
		l := &b.Limits[i]
		l.Drawn = l.Window(b.Shard(), now).Refilled - balances[i]
	}
	return b
}

func TestPlanCommitsTheSumOfWhatFits(t *testing.T) {
	s := testSettings(perMinute("rpm", 10), perMinute("tpm", 1000))
	v := view{now: testNow, item: itemWith(s, testNow, 3000, 900_000), fresh: true, settings: s}
	p := newPlan(v, []operation{
		acquireOp(api.Amount{Name: "rpm", Tokens: 1}, api.Amount{Name: "tpm", Tokens: 500}),
		acquireOp(api.Amount{Name: "rpm", Tokens: 1}, api.Amount{Name: "tpm", Tokens: 500}), // only its mate keeps it out
		acquireOp(api.Amount{Name: "rpm", Tokens: 4}),                                       // short of what is known
		acquireOp(api.Amount{Name: "rpm", Tokens: 2}, api.Amount{Name: "tpm", Tokens: 400}), // later and smaller, fits
	})
	require.Equal(t, []verdict{verdictCommit, verdictWait, verdictDeny, verdictCommit}, p.verdicts)
	require.Nil(t, p.create)
	require.EqualValues(t, 2, p.commit.Acquires)
	require.True(t, p.commit.Guarded)
	require.Equal(t, []int64{3000, 900_000}, []int64{p.commit.Limits[0].Consumed, p.commit.Limits[1].Consumed})
}

func TestPlanOfStaleStateDoesNotDeny(t *testing.T) {
	s := testSettings(perMinute("rpm", 10))
	v := view{now: testNow, item: itemWith(s, testNow, 0), settings: s}
	p := newPlan(v, []operation{acquireOp(api.Amount{Name: "rpm", Tokens: 1})})
	require.Equal(t, []verdict{verdictWait}, p.verdicts)
	require.Nil(t, p.commit)
	require.Nil(t, p.create)
}

func TestPlanDebtBlocksEvenAZeroSpend(t *testing.T) {
	s := testSettings(perMinute("rpm", 10), perMinute("tpm", 1000))
	v := view{now: testNow, item: itemWith(s, testNow, 10_000, -1), fresh: true, settings: s}
	p := newPlan(v, []operation{acquireOp(api.Amount{Name: "rpm", Tokens: 1})})
	require.Equal(t, []verdict{verdictDeny}, p.verdicts)
}

func TestPlanCreatesFullMinusWhatIsSpent(t *testing.T) {
	s := testSettings(perMinute("rpm", 10))
	v := view{now: testNow, item: fullBucket(testNow, testKey(), s), absent: true, settings: s}
	p := newPlan(v, []operation{
		acquireOp(api.Amount{Name: "rpm", Tokens: 4}),
		refundOp(api.Amount{Name: "rpm", Tokens: -2}), // credits to a bucket that is gone are dropped
		settleOp(api.Amount{Name: "rpm", Tokens: 3}),
	})
	require.Equal(t, []verdict{verdictCommit, verdictDrop, verdictCommit}, p.verdicts)
	b := p.create.Bucket
	require.EqualValues(t, 3000, b.Limits[0].Window(b.Shard(), testNow).Balance(b.Limits[0].Drawn))
	require.EqualValues(t, 7000, b.Limits[0].Consumed)
	require.EqualValues(t, 1, b.Acquires)
	require.Equal(t, bucket.TTL(s.Limits, testNow), b.TTL)
}

func TestPlanOfCreditsAloneIsUnguarded(t *testing.T) {
	s := testSettings(perMinute("rpm", 10))
	v := view{now: testNow, item: itemWith(s, testNow, 0), fresh: true}
	p := newPlan(v, []operation{refundOp(api.Amount{Name: "rpm", Tokens: -2}, api.Amount{Name: "gone", Tokens: -1})})
	require.Equal(t, []verdict{verdictCommit}, p.verdicts)
	require.False(t, p.commit.Guarded)
	require.Zero(t, p.commit.TTL)
	require.Zero(t, p.commit.Acquires)
	require.Len(t, p.commit.Limits, 1)
}

// A late spend may set a ttl after the item was seen. A debit that left it could put an
// item into debt that expires.
func TestPlanOfADebtLeavesNoUnknownTTL(t *testing.T) {
	s := testSettings(perMinute("rpm", 10))
	p := newPlan(view{now: testNow, item: itemWith(s, testNow, 3000), fresh: true}, []operation{settleOp(api.Amount{Name: "rpm", Tokens: 5})})
	require.Equal(t, table.TTL{Remove: true}, p.commit.TTL)
}

// Whatever waits: the write is right for the state it was planned against, it
// admits only what fits at its turn, it denies only what the known state alone
// is short of, and an item that expires is full by then.
func TestPlanProperties(t *testing.T) {
	names := []string{"daily", "rpm", "tpm"}
	rapid.Check(t, func(t *rapid.T) {
		s := &config.Resolved{Fingerprint: "print", Permanent: rapid.Bool().Draw(t, "permanent")}
		n := rapid.IntRange(1, len(names)).Draw(t, "limits")
		for _, name := range names[:n] {
			s.Limits = append(s.Limits, bucket.Limit{
				Name:     name,
				Capacity: rapid.Int64Range(1, 50).Draw(t, "capacity") * bucket.Milli,
				Refill:   rapid.Int64Range(1, 100).Draw(t, "refill") * bucket.Milli,
				Period:   rapid.Int64Range(1, 100).Draw(t, "period") * 1000,
			})
		}
		now := testNow + bucket.Instant(rapid.Int64Range(0, 1_000_000).Draw(t, "now"))
		v := view{now: now, item: fullBucket(now, testKey(), s), fresh: rapid.Bool().Draw(t, "fresh"), settings: s, grace: rapid.Int64Range(0, 50).Draw(t, "grace")}
		if v.absent = rapid.Bool().Draw(t, "absent"); !v.absent {
			for i := range v.item.Limits {
				far := rapid.SampledFrom([]int64{0, 0, 0, 0, 0, bucket.MaxDebt, -bucket.MaxDebt}).Draw(t, "far")
				v.item.Limits[i].Drawn += far + rapid.Int64Range(-20_000, 400_000).Draw(t, "drawn")
			}
		}
		operations := rapid.SliceOfN(rapid.Custom(func(t *rapid.T) operation {
			op := operation{settle: rapid.Bool().Draw(t, "settle")}
			low, high := int64(0), int64(20)
			switch {
			case op.settle && rapid.Bool().Draw(t, "refund"):
				op.refund, op.undone = true, rapid.Int64Range(0, 2).Draw(t, "undone")
				low, high = -20, 0
			case op.settle:
			default:
				op.peek = rapid.Bool().Draw(t, "look")
			}
			for _, name := range names[:n] {
				if rapid.Bool().Draw(t, "named") {
					op.amounts = append(op.amounts, api.Amount{Name: name, Tokens: rapid.Int64Range(low, high).Draw(t, "tokens")})
				}
			}
			return op
		}), 1, 8).Draw(t, "operations")

		p := newPlan(v, operations)
		after := checkVerdicts(t, v, operations, p)
		checkWrite(t, v, p, after)
	})
}

// checkVerdicts plays the operations one after another on plain balances and
// returns the drawn counts they lead to.
func checkVerdicts(t *rapid.T, v view, operations []operation, p plan) []int64 {
	drawn := make([]int64, len(v.item.Limits))
	windows := make([]bucket.Window, len(v.item.Limits))
	for i, l := range v.item.Limits {
		drawn[i], windows[i] = l.Drawn, l.WindowNear(v.item.Shard(), v.now, l.Drawn, v.grace)
	}
	short := func(counts func(i int) int64, op operation) bool {
		for i, l := range v.item.Limits {
			cost := costOf(op.amounts, l.Name)
			switch {
			case op.settle && cost > 0 && counts(i) > windows[i].Refilled+bucket.MaxDebt-cost:
				return true // no limit may owe more
			case !op.settle && windows[i].Balance(counts(i)) < cost:
				return true
			}
		}
		return false
	}
	writes, acquires := 0, int64(0)
	for n, op := range operations {
		if op.peek {
			require.Equal(t, v.fresh, p.verdicts[n] == verdictShow, "a look is shown what is fresh")
			continue
		}
		isShort := short(func(i int) int64 { return drawn[i] }, op)
		switch p.verdicts[n] {
		case verdictCommit:
			require.False(t, isShort, "operation %d was admitted over the limit", n)
			writes++
			switch {
			case op.refund:
				acquires -= op.undone
			case !op.settle:
				acquires++
			}
			for i, l := range v.item.Limits {
				if delta := costOf(op.amounts, l.Name); delta > 0 {
					drawn[i] = max(drawn[i], windows[i].Full()) + delta
				} else if delta < 0 && !v.absent {
					drawn[i] = max(drawn[i]+delta, windows[i].Full()-bucket.MaxDebt)
				}
			}
		case verdictDeny:
			require.True(t, v.fresh)
			require.True(t, short(func(i int) int64 { return v.item.Limits[i].Drawn }, op), "operation %d was denied falsely", n)
		case verdictWait:
			require.True(t, isShort, "operation %d fits and waits", n)
		case verdictDrop:
			require.True(t, op.settle)
			require.False(t, op.undone > 0 && !v.absent, "an acquire that is taken back is not counted any more")
		case verdictShow, verdictMoved, verdictDivided, verdictHot:
			t.Fatalf("operation %d is %d", n, p.verdicts[n])
		}
	}
	switch {
	case p.commit != nil:
		require.Equal(t, acquires, p.commit.Acquires)
	case p.create != nil:
		require.Equal(t, acquires, p.create.Bucket.Acquires)
	}
	require.Equal(t, writes > 0, p.commit != nil || p.create != nil)
	if writes == 0 && v.fresh {
		require.NotContains(t, p.verdicts, verdictWait, "nothing would ever decide it")
	}
	return drawn
}

// checkWrite applies the write to the state it was planned against.
func checkWrite(t *rapid.T, v view, p plan, want []int64) {
	var ttl int64
	got := make([]int64, len(v.item.Limits))
	for i, l := range v.item.Limits {
		got[i] = l.Drawn
	}
	switch {
	case p.commit != nil:
		for _, change := range p.commit.Limits {
			for i, l := range v.item.Limits {
				if l.Name == change.Name {
					require.True(t, change.Change.Holds(l.Drawn), "the write's own condition fails on what it was planned for")
					got[i] = change.Change.Apply(l.Drawn)
				}
			}
		}
		ttl = p.commit.TTL.Set
	case p.create != nil:
		for i, l := range p.create.Bucket.Limits {
			got[i] = l.Drawn
		}
		ttl = p.create.Bucket.TTL
	}
	require.Equal(t, want, got)
	if ttl == 0 {
		return
	}
	require.False(t, v.settings.Permanent)
	expires := bucket.Instant(ttl*1000 - bucket.EpochUnixMs)
	for i, l := range v.item.Limits {
		w := l.Window(v.item.Shard(), expires)
		require.Equal(t, w.Capacity, w.Balance(got[i]), "limit %s is not full when the item expires", l.Name)
	}
}
