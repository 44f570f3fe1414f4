package admission

import (
	"fmt"
	"math/bits"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tidegate/tidegate/internal/config"
	"github.com/tidegate/tidegate/pkg/api"
	"github.com/tidegate/tidegate/pkg/bucket"
)

// The explorer looks at every order of a few operations on one bucket: at nodes that know
// different things, while replies get lost, writes arrive late, nodes crash, shards split
// and merge, and limits change. The plans, their write forms, and the evaluation of their
// expressions are the real ones; the explorer itself stands for the flight that carries
// them out, and for the store.

const (
	shardsExplored = 2
	limitsExplored = 2
	nodesExplored  = 3
	opsExplored    = 4
)

// exploredLimits are the names of the limits, in the order of their numbers.
var exploredLimits = [limitsExplored]string{"x", "y"}

// exploredInstants are the moments of the explored time: two seconds, and another much later.
var exploredInstants = [4]bucket.Instant{testNow, testNow + 1000, testNow + 2000, testNow + 60_000}

func limitNumber(name string) int {
	for n, known := range exploredLimits {
		if known == name {
			return n
		}
	}
	panic("a limit called " + name)
}

// opKind is the kind of an operation.
type opKind uint8

const (
	opAcquire opKind = iota
	opDebit          // an adjust that spends more
	opGive           // an adjust that gives back
	opRelease        // gives back all that an acquire spent
)

// exploredOp is an operation of a case.
type exploredOp struct {
	kind   opKind
	of     int                   // of a settlement: the acquire that it settles
	tokens [limitsExplored]int64 // whole tokens of each limit; of a release: of its acquire
}

func (o *exploredOp) amounts(sign int64) api.Amounts {
	var amounts api.Amounts
	for n, tokens := range o.tokens {
		if tokens != 0 {
			amounts = append(amounts, api.Amount{Name: exploredLimits[n], Tokens: sign * tokens})
		}
	}
	return amounts
}

func (o *exploredOp) milli() (milli [limitsExplored]int64) {
	for n, tokens := range o.tokens {
		milli[n] = tokens * bucket.Milli
	}
	return milli
}

// phase is the state of an operation.
type phase uint8

const (
	phaseIdle     phase = iota
	phaseQueued         // at its node
	phaseDone           // admitted, or written
	phaseRefused        // denied
	phaseGone           // of unknown outcome, or dropped
	phaseRepeated       // a debit of unknown outcome that is queued again
)

func (p phase) waits() bool { return p == phaseQueued || p == phaseRepeated }

// opState is an operation as far as it has come.
type opState struct {
	phase   phase
	node    uint8
	applied uint8   // writes of it; of a refund: bits of its parts
	shard   uint8   // of an acquire: spent from
	multi   writeID // of an acquire: the multi-shard spend that it was
	todo    uint8   // of a refund: bits of the shards that parts of it were spent from
	moved   bool    // of a settlement: shard 1 is gone
}

// knownShard is a shard as a node knows it.
type knownShard struct {
	item   itemID
	seen   bool // item is what the store said; noItem: there is none
	seenAt uint8
}

// exploredNode is a node. It makes a write at a time.
type exploredNode struct {
	known    [shardsExplored]knownShard
	settings uint8
	write    writeID
	lost     bool // the reply to the write is lost
	tree     uint8
}

// state is a state of the explored system, as a value: equal states are explored once.
type state struct {
	items    [shardsExplored]itemID
	now      uint8
	settings uint8 // that hold
	nodes    [nodesExplored]exploredNode
	ops      [opsExplored]opState
	sharder  writeID
	late     writeID
	// The ledger, in whole tokens by limit and instant: spent by the moment for which the
	// spend was planned, given by the moment at which it was written.
	spent, given [limitsExplored][len(exploredInstants)]uint8
	faults, crashes,
	splits, merges uint8
}

// hash returns 64 bits of the state.
func (s *state) hash() uint64 {
	h := uint64(0x9e3779b97f4a7c15)
	mix := func(v uint64) {
		h ^= v
		h *= 0xff51afd7ed558ccd
		h ^= h >> 32
		h *= 0xc4ceb9fe1a85ec53
		h ^= h >> 29
	}
	mix(uint64(s.items[0]) | uint64(s.items[1])<<16 | uint64(s.now)<<32 | uint64(s.settings)<<40)
	for i := range s.nodes {
		n := &s.nodes[i]
		mix(uint64(n.known[0].item) | uint64(n.known[1].item)<<16 | uint64(n.known[0].seenAt)<<32 | uint64(n.known[1].seenAt)<<40 |
			bit(n.known[0].seen)<<48 | bit(n.known[1].seen)<<49 | bit(n.lost)<<50 | uint64(n.settings)<<51 | uint64(n.tree)<<55)
		mix(uint64(n.write))
	}
	for i := range s.ops {
		o := &s.ops[i]
		mix(uint64(o.phase) | uint64(o.node)<<8 | uint64(o.applied)<<16 | uint64(o.shard)<<24 | uint64(o.todo)<<28 | bit(o.moved)<<31 | uint64(o.multi)<<32)
	}
	mix(uint64(s.sharder) | uint64(s.late)<<32)
	for n := range s.spent {
		for at := range s.spent[n] {
			mix(uint64(s.spent[n][at]) | uint64(s.given[n][at])<<32)
		}
	}
	mix(uint64(s.faults) | uint64(s.crashes)<<8 | uint64(s.splits)<<16 | uint64(s.merges)<<24)
	return h
}

func bit(b bool) uint64 {
	if b {
		return 1
	}
	return 0
}

// explored is a case: what may happen, and how often.
type explored struct {
	name     string
	settings []*config.Resolved // the first at the beginning; later ones may replace it
	ops      []exploredOp
	balances []int64 // millitokens at the beginning; none: there is no bucket
	nodes    int
	faults   uint8
	crashes  uint8
	splits   uint8
	merges   uint8
	grace    int64
	night    bool // too large for every run of the tests
	// broken changes a plan before it is written; nil in cases that must hold.
	broken func(*plan)
	// repeats says that a node repeats acquires of unknown outcome, as it must not.
	repeats bool
}

// explorer explores a case.
type explorer struct {
	*explored
	catalog  *catalog
	most     [limitsExplored]bucket.Limit // the highest settings of each limit
	slack    int64                        // millitokens that planning a moment ago may admit more
	balances map[availableKey]*[limitsExplored]int64
	plans    map[planKey]*planned
	buffer   []step
	asStory  bool
}

// step is a state that follows another.
type step struct {
	state state
	what  string
	wrong string
}

func newExplorer(e *explored) *explorer {
	x := &explorer{
		explored: e, catalog: newCatalog(), balances: map[availableKey]*[limitsExplored]int64{}, plans: map[planKey]*planned{},
	}
	for _, s := range e.settings {
		for _, l := range s.Limits {
			most := &x.most[limitNumber(l.Name)]
			most.Name, most.Capacity, most.Period = l.Name, max(most.Capacity, l.Capacity), l.Period
			most.Refill = max(most.Refill, l.Refill)
			x.slack = max(x.slack, l.Refill*e.grace/l.Period)
		}
	}
	return x
}

func (x *explorer) start() state {
	s := state{faults: x.faults, crashes: x.crashes, splits: x.splits, merges: x.merges}
	if x.balances0() {
		s.items[0] = x.catalog.item(itemWith(x.settings[0], exploredInstants[0], x.explored.balances...))
	}
	for n := range s.spent { // what is not there at the beginning was spent before
		held := x.available(s.items, 0)[n]
		s.spent[n][0] = uint8((x.most[n].Capacity - held) / bucket.Milli) //nolint:gosec // few tokens
	}
	return s
}

func (x *explorer) balances0() bool { return len(x.explored.balances) > 0 }

// explore visits every state that can be reached, breadth first, and returns their number.
// At a state that breaks a promise it stops, and tells how it came about.
func (x *explorer) explore() (states int, wrong string) {
	first := x.start()
	seen := map[uint64]struct{}{first.hash(): {}}
	level := []state{first}
	var next []state
	for len(level) > 0 {
		for i := range level {
			steps := x.steps(&level[i])
			if len(steps) == 0 {
				if left := x.unfinished(&level[i]); left != "" {
					return len(seen), x.story(left, &level[i], -1)
				}
			}
			for n := range steps {
				st := &steps[n]
				h := st.state.hash()
				if st.wrong == "" {
					if _, ok := seen[h]; ok {
						continue
					}
					st.wrong = x.wrong(&st.state)
				}
				if st.wrong != "" {
					return len(seen), x.story(st.wrong, &level[i], n)
				}
				seen[h] = struct{}{}
				next = append(next, st.state)
			}
		}
		level, next = next, level[:0]
	}
	return len(seen), ""
}

// unfinished says which operation never ends; empty if all have.
func (x *explorer) unfinished(s *state) string {
	for i := range x.ops {
		if s.ops[i].phase == phaseIdle && x.ops[i].kind != opAcquire && s.ops[x.ops[i].of].phase != phaseDone {
			continue // there is nothing to settle
		}
		if s.ops[i].phase == phaseIdle || s.ops[i].phase.waits() {
			return fmt.Sprintf("operation %d never ends", i)
		}
	}
	return ""
}

// cameFrom is the state before a state, and the step between them.
type cameFrom struct {
	from uint64
	what string
}

// story explores again, and tells the steps to the last step of a state; -1: to the state
// itself. Only a failing case pays for it.
func (x *explorer) story(wrong string, end *state, last int) string {
	x.asStory = true
	first, until := x.start(), end.hash()
	origins := map[uint64]cameFrom{first.hash(): {}}
	for level := []state{first}; len(level) > 0 && origins[until] == (cameFrom{}) && until != first.hash(); {
		var next []state
		for i := range level {
			for _, st := range x.steps(&level[i]) {
				if _, ok := origins[st.state.hash()]; !ok {
					origins[st.state.hash()] = cameFrom{level[i].hash(), st.what}
					next = append(next, st.state)
				}
			}
		}
		level = next
	}
	var lines []string
	if last >= 0 {
		lines = append(lines, x.steps(end)[last].what)
	}
	for h := until; h != first.hash(); h = origins[h].from {
		lines = append(lines, origins[h].what)
	}
	slices.Reverse(lines)
	return wrong + "\n" + strings.Join(lines, "\n")
}

// add adds a state that follows. The story is told only if it is asked for.
func (x *explorer) add(s *state, wrong, format string, args ...any) {
	what := ""
	if x.asStory {
		what = fmt.Sprintf(format, args...)
	}
	x.buffer = append(x.buffer, step{*s, what, wrong})
}

// TestEverySmallCase explores the cases that take a moment. The flag -exhaustive adds the
// others, which take minutes.
func TestEverySmallCase(t *testing.T) {
	for _, e := range exploredCases() {
		t.Run(e.name, func(t *testing.T) {
			if e.night && !*exhaustive {
				t.Skip("a large case: run `make sim-exhaustive`")
			}
			t.Parallel()
			states, wrong := newExplorer(e).explore()
			require.Empty(t, wrong)
			t.Logf("%d states", states)
			require.Greater(t, states, 1000, "the case explores")
		})
	}
}

// A plan that lacks a condition is found.
func TestTheExplorerFindsBrokenForms(t *testing.T) {
	for _, e := range brokenCases() {
		t.Run(e.name, func(t *testing.T) {
			t.Parallel()
			states, wrong := newExplorer(e).explore()
			require.NotEmpty(t, wrong, "%d states, and none is wrong", states)
			require.Contains(t, wrong, "\n", "the story is told")
			t.Logf("after %d states: %s", states, wrong)
		})
	}
}

// members lists the numbers of the bits of a set.
func members(set uint8) (numbers []int) {
	for ; set != 0; set &= set - 1 {
		numbers = append(numbers, bits.TrailingZeros8(set))
	}
	return numbers
}
