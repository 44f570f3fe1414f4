package lease

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tidegate/tidegate/pkg/api"
)

// The model runs requests on one lease, step by step in every order, over the real
// decide and end. Nodes crash, writes of records and of the table are lost or arrive
// late, and a pending operation is taken for abandoned although its owner lives. After
// each step the lease holds no more than the table has drawn for it.

const (
	modelParts = 2 // of the lease: levels, or limits of one level
	modelTime  = 10 * time.Second
)

type modelVector [modelParts]int8

// modelRecord is a record as a value, so that states can be compared.
type modelRecord struct {
	exists, closed, pending, busy bool
	held, left                    modelVector
	done                          uint32
	hash, pendingHash             string
	revision                      int8
	writer                        int8 // the request that stored it
}

type modelStage uint8

const (
	stageIdle  modelStage = iota
	stageRead             // reads the record and decides
	stageStore            // stores the record that begins
	stageSpend            // writes debits
	stageEnd              // stores the record that ends
	stageOver
)

// modelRequest is one request at a node.
type modelRequest struct {
	stage            modelStage
	number           uint32
	kind             int8        // of modelKinds; the last is the release
	next             modelRecord // to be stored
	expected         int8
	debits           modelVector // not yet written
	written, credits modelVector
	given            bool // the credits are final, and wait to be written
	insists          bool // the record's outcome is unknown: it is sent again
	answered         bool
}

type modelState struct {
	drawn    modelVector
	record   modelRecord
	late     modelRecord // a write of a record that may arrive yet; late.writer tells whose
	isLate   bool
	lateFor  int8        // the revision that it expects
	debt     modelVector // a write of the table that may arrive yet
	requests [3]modelRequest
	token    uint32 // the highest number that a caller has got
	faults   [faultKinds]int8
}

const (
	faultCrash = iota
	faultTable // of unknown outcome
	faultRecord
	faultThrottle
	faultStale
	faultKinds
)

// model is one shape of the lease with the operations that callers know.
type model struct {
	lease    *Lease
	kinds    []modelVector // of adjusts; one more stands for the release
	requests int
	faults   [faultKinds]int8
}

func levelsModel() *model {
	l := &Lease{Number: 1, Levels: []Level{
		{Entity: "child", Held: []Held{{Limit: "x", Tokens: 2}}}, {Entity: "parent", Held: []Held{{Limit: "x", Tokens: 2}}},
	}}
	return &model{lease: l, kinds: []modelVector{{-1, -1}, {1, 1}}}
}

func limitsModel() *model {
	l := &Lease{Number: 1, Levels: []Level{{Held: []Held{{Limit: "x", Tokens: 2}, {Limit: "y", Tokens: 2}}}}}
	return &model{lease: l, kinds: []modelVector{{-1, 0}, {0, 1}, {1, -1}}}
}

func (m *model) start() modelState {
	return modelState{drawn: modelVector{2, 2}, token: 1, faults: m.faults}
}

// table and vector convert between the model's amounts and a lease's.
func (m *model) table(v modelVector) tokenTable {
	t, n := newTokenTable(m.lease), 0
	for i := range t {
		for j := range t[i] {
			t[i][j] = int64(v[n])
			n++
		}
	}
	return t
}

func (m *model) vector(t tokenTable) (v modelVector) {
	n := 0
	for _, level := range t {
		for _, tokens := range level {
			v[n] = int8(tokens)
			n++
		}
	}
	return v
}

func (m *model) op(r *modelRequest) Operation {
	if int(r.kind) == len(m.kinds) {
		return Operation{release: true, number: r.number, hash: "release"}
	}
	op := Operation{number: r.number, hash: fmt.Sprint("adjust ", r.kind)}
	seen := map[string]bool{}
	n := 0
	for _, level := range m.lease.Levels {
		for _, h := range level.Held {
			if delta := m.kinds[r.kind][n]; delta != 0 && !seen[h.Limit] {
				op.deltas = append(op.deltas, api.Amount{Name: h.Limit, Tokens: int64(delta)})
				seen[h.Limit] = true
			}
			n++
		}
	}
	return op
}

func (m *model) record(r modelRecord) *Record {
	if !r.exists {
		return nil
	}
	rec := &Record{Held: m.table(r.held), Done: r.done, Hash: r.hash, Closed: r.closed}
	if r.pending {
		rec.Pending = &pending{Hash: r.pendingHash, Left: m.table(r.left), Busy: r.busy}
	}
	return rec
}

func (m *model) stored(rec *Record, revision int8, writer int) modelRecord {
	r := modelRecord{exists: true, held: m.vector(rec.Held), done: rec.Done, hash: rec.Hash, closed: rec.Closed, revision: revision, writer: int8(writer)}
	if p := rec.Pending; p != nil {
		r.pending, r.busy, r.left, r.pendingHash = true, p.Busy, m.vector(p.Left), p.Hash
	}
	return r
}

type modelStep struct {
	state modelState
	what  string
}

// steps are the states that may follow.
func (m *model) steps(s modelState) (next []modelStep) {
	add := func(n modelState, format string, args ...any) {
		next = append(next, modelStep{n, fmt.Sprintf(format, args...)})
	}
	if s.isLate {
		n := s
		n.isLate = false
		if s.record.revision == s.lateFor {
			n.record = s.late
		}
		n.late = modelRecord{}
		add(n, "a late record arrives")
	}
	if s.debt != (modelVector{}) {
		n := s
		n.drawn, n.debt = s.drawn.plus(s.debt), modelVector{}
		add(n, "a late write of the table arrives")
	}
	begun := false
	for i := range m.requests {
		r := &s.requests[i]
		if r.stage == stageIdle {
			if !begun {
				begun = true
				m.begins(s, i, add)
			}
			continue
		}
		if s.faults[faultCrash] > 0 && (r.stage != stageOver || r.given || r.insists) {
			n := s
			n.faults[faultCrash]--
			n.requests[i] = modelRequest{stage: stageOver, number: r.number, kind: r.kind}
			add(n, "node %d crashes", i)
		}
		if r.given {
			m.writeCredits(s, i, add)
		}
		if r.insists {
			m.insist(s, i, add)
			continue
		}
		switch r.stage {
		case stageRead:
			m.decides(s, i, add)
		case stageStore:
			m.stores(s, i, add)
		case stageSpend:
			m.spends(s, i, add)
		case stageEnd:
			m.ends(s, i, add)
		case stageIdle, stageOver:
		}
	}
	return next
}

type addStep = func(n modelState, format string, args ...any)

func (v modelVector) plus(w modelVector) modelVector {
	for i := range v {
		v[i] += w[i]
	}
	return v
}

func (v modelVector) negated() modelVector {
	for i := range v {
		v[i] = -v[i]
	}
	return v
}

// violation says how a state breaks the invariant; empty where it does not.
func (m *model) violation(s *modelState) string {
	held := s.record.held
	if !s.record.exists {
		held = m.start().drawn
	}
	least := s.drawn
	for i := range s.requests {
		if s.requests[i].given {
			least = least.plus(s.requests[i].credits.negated())
		}
	}
	for i := range least {
		least[i] = min(least[i], least[i]+s.debt[i])
		if held[i] < 0 || held[i] > least[i] {
			return fmt.Sprintf("the lease holds %v, of which %v are drawn at least", held, least)
		}
	}
	return ""
}

// TestALeaseNeverHoldsMoreThanIsDrawn looks at every order of two requests, and at
// random orders of three.
func TestALeaseNeverHoldsMoreThanIsDrawn(t *testing.T) {
	for name, m := range map[string]*model{"levels": levelsModel(), "limits": limitsModel()} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m.requests, m.faults = 2, [faultKinds]int8{1, 1, 1, 1, 1}
			m.everyOrder(t)
			m.requests, m.faults = 3, [faultKinds]int8{2, 2, 2, 1, 1}
			m.randomOrders(t, 3000)
		})
	}
}

func (m *model) everyOrder(t *testing.T) {
	t.Helper()
	seen := map[modelState]struct{}{m.start(): {}}
	queue := []modelState{m.start()}
	for len(queue) > 0 {
		s := queue[0]
		queue = queue[1:]
		for _, next := range m.steps(s) {
			if _, ok := seen[next.state]; ok {
				continue
			}
			require.Empty(t, m.violation(&next.state), "after %s: %+v", next.what, s)
			seen[next.state] = struct{}{}
			queue = append(queue, next.state)
		}
	}
	t.Logf("%d states", len(seen))
	require.Greater(t, len(seen), 10_000, "the model explores")
}

func (m *model) randomOrders(t *testing.T, walks int) {
	t.Helper()
	for range walks {
		seed := rand.Uint64()
		random, s := rand.New(rand.NewPCG(seed, 0)), m.start()
		var story []string
		for next := m.steps(s); len(next) > 0; next = m.steps(s) {
			step := next[random.IntN(len(next))]
			s, story = step.state, append(story, step.what)
			if why := m.violation(&s); why != "" {
				t.Fatalf("seed %d: %s\n%s", seed, why, strings.Join(story, "\n"))
			}
		}
	}
}
