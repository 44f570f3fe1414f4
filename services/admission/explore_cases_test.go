package admission

import (
	"flag"
	"math"
	"slices"

	"github.com/tidegate/tidegate/internal/config"
	"github.com/tidegate/tidegate/internal/table"
	"github.com/tidegate/tidegate/pkg/bucket"
)

var exhaustive = flag.Bool("exhaustive", false, "explore the large cases of TestEverySmallCase too")

// exploredSettings returns limits of so many tokens, which regain a token per second, and
// per two seconds.
func exploredSettings(print string, x, y int64) *config.Resolved {
	s := &config.Resolved{Fingerprint: print, Limits: []bucket.Limit{
		{Name: "x", Capacity: x * bucket.Milli, Refill: bucket.Milli, Period: 1000},
	}}
	if y > 0 {
		s.Limits = append(s.Limits, bucket.Limit{Name: "y", Capacity: y * bucket.Milli, Refill: bucket.Milli, Period: 2000})
	}
	return s
}

func spendsOf(x, y int64) exploredOp {
	return exploredOp{kind: opAcquire, tokens: [limitsExplored]int64{x, y}}
}

func debits(of int, x, y int64) exploredOp {
	return exploredOp{kind: opDebit, of: of, tokens: [limitsExplored]int64{x, y}}
}

func gives(of int, x, y int64) exploredOp {
	return exploredOp{kind: opGive, of: of, tokens: [limitsExplored]int64{x, y}}
}

func releases(of int, x, y int64) exploredOp {
	return exploredOp{kind: opRelease, of: of, tokens: [limitsExplored]int64{x, y}}
}

// exploredCases are the cases that must hold. Together the large ones have more than ten
// million states.
func exploredCases() []*explored {
	one := []*config.Resolved{exploredSettings("a", 2, 3)}
	lower := []*config.Resolved{one[0], exploredSettings("b", 1, 3)}
	raise := []*config.Resolved{one[0], exploredSettings("b", 3, 3)}
	remove := []*config.Resolved{one[0], exploredSettings("b", 2, 0)}
	give := []*config.Resolved{exploredSettings("a", 2, 0), exploredSettings("b", 2, 2)}
	full, some := []int64{2000, 3000}, []int64{1000, 2000}
	return []*explored{
		{name: "two acquires", settings: one, nodes: 2, ops: []exploredOp{spendsOf(1, 1), spendsOf(2, 2)}, faults: 1},
		{name: "a debt", settings: one, nodes: 2, ops: []exploredOp{spendsOf(2, 1), debits(0, 1, 1), spendsOf(0, 1)}, faults: 1},
		{name: "a release", settings: one, nodes: 2, balances: full, ops: []exploredOp{spendsOf(1, 1), releases(0, 1, 1), spendsOf(2, 0)}, faults: 1},
		{name: "a lease of two shards", settings: one, nodes: 1, balances: full, ops: []exploredOp{spendsOf(2, 2), releases(0, 2, 2)}, splits: 1, merges: 1},
		{name: "lowered", settings: lower, nodes: 2, balances: full, ops: []exploredOp{spendsOf(1, 1), spendsOf(1, 0)}},

		{name: "three acquires at three nodes", settings: one, nodes: 3, balances: some, ops: []exploredOp{spendsOf(1, 1), spendsOf(1, 2), spendsOf(0, 1)}, faults: 1, night: true},
		{name: "crashes", settings: one, nodes: 2, ops: []exploredOp{spendsOf(1, 1), debits(0, 1, 1), releases(0, 1, 1)}, faults: 1, crashes: 1, night: true},
		{name: "settlements meet", settings: one, nodes: 2, balances: full, ops: []exploredOp{spendsOf(2, 2), gives(0, 1, 0), debits(0, 0, 1), spendsOf(1, 0)}, faults: 1, night: true},
		{name: "a split", settings: one, nodes: 2, balances: full, ops: []exploredOp{spendsOf(1, 1), spendsOf(2, 1)}, splits: 1, night: true},
		{name: "a split under a release", settings: one, nodes: 2, balances: full, ops: []exploredOp{spendsOf(2, 1), releases(0, 2, 1)}, splits: 1, faults: 1, night: true},
		{name: "a split and a merge", settings: one, nodes: 2, balances: full, ops: []exploredOp{spendsOf(1, 2), spendsOf(2, 1)}, splits: 1, merges: 1, night: true},
		{name: "a merge under a debt", settings: one, nodes: 1, balances: full, ops: []exploredOp{spendsOf(1, 1), debits(0, 2, 0), spendsOf(0, 1)}, splits: 1, merges: 1, faults: 1, night: true},
		{name: "raised", settings: raise, nodes: 2, balances: some, ops: []exploredOp{spendsOf(1, 1), spendsOf(2, 1), debits(0, 1, 0)}, faults: 1, night: true},
		{name: "lowered under a release", settings: lower, nodes: 2, balances: full, ops: []exploredOp{spendsOf(1, 1), releases(0, 1, 1), spendsOf(1, 0)}, faults: 1, night: true},
		{name: "added", settings: give, nodes: 2, balances: []int64{2000}, ops: []exploredOp{spendsOf(1, 0), spendsOf(2, 0), releases(0, 1, 0)}, faults: 1, night: true},
		{name: "removed", settings: remove, nodes: 2, balances: some, ops: []exploredOp{spendsOf(1, 0), spendsOf(2, 0)}, faults: 1, night: true},
		{name: "removed from shards", settings: remove, nodes: 1, balances: some, ops: []exploredOp{spendsOf(1, 0), spendsOf(2, 0)}, splits: 1, merges: 1, faults: 1, night: true},
	}
}

// brokenCases are plans that lack something, each in a case that needs it.
func brokenCases() []*explored {
	one := []*config.Resolved{exploredSettings("a", 2, 3)}
	each := func(change func(*table.LimitChange)) func(*plan) {
		return func(p *plan) {
			if p.commit == nil {
				return
			}
			for i := range p.commit.Limits {
				change(&p.commit.Limits[i])
			}
		}
	}
	meet := []exploredOp{spendsOf(1, 1), spendsOf(2, 1), spendsOf(0, 1)}
	return []*explored{
		{
			name: "no upper bound", settings: one, nodes: 2, balances: []int64{2000, 3000}, ops: meet,
			broken: each(func(l *table.LimitChange) { l.Change.Max = math.MaxInt64 }),
		},
		{
			name: "no lower bound", settings: one, nodes: 2, balances: []int64{1000, 1000}, ops: meet,
			broken: each(func(l *table.LimitChange) { l.Change.Min = math.MinInt64 }),
		},
		{
			name: "a range that is a token too wide", settings: one, nodes: 2, balances: []int64{2000, 3000}, ops: meet,
			broken: each(func(l *table.LimitChange) {
				if l.Change.Max != math.MaxInt64 {
					l.Change.Max += bucket.Milli
				}
			}),
		},
		{
			name: "no condition on settings and level", settings: []*config.Resolved{one[0], exploredSettings("b", 1, 3)}, nodes: 2,
			balances: []int64{2000, 3000}, ops: meet, broken: func(p *plan) {
				if p.commit != nil {
					p.commit.Guarded = false
				}
			},
		},
		{
			name: "no condition on a limit that costs nothing", settings: one, nodes: 2, balances: []int64{2000, 3000},
			ops: []exploredOp{spendsOf(2, 1), debits(0, 1, 0), spendsOf(0, 1)}, broken: func(p *plan) {
				if p.commit != nil {
					p.commit.Limits = slices.DeleteFunc(p.commit.Limits, func(l table.LimitChange) bool { return l.Consumed == 0 })
				}
			},
		},
		{name: "consumption counted twice", settings: one, nodes: 1, balances: []int64{2000, 3000}, ops: meet, broken: each(func(l *table.LimitChange) { l.Consumed *= 2 })},
		{name: "an acquire in doubt is repeated", settings: one, nodes: 2, balances: []int64{2000, 3000}, ops: meet, faults: 1, repeats: true},
		{name: "an expiry that is too early", settings: one, nodes: 1, balances: []int64{2000, 3000}, ops: []exploredOp{spendsOf(2, 3)}, broken: func(p *plan) {
			if p.commit != nil {
				p.commit.TTL.Set = exploredInstants[1].Time().Unix()
			}
		}},
	}
}
