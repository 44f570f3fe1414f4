package lease

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tidegate/tidegate/pkg/api"
	"github.com/tidegate/tidegate/pkg/bucket"
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

func (m *model) begins(s modelState, i int, add addStep) {
	for number := uint32(1); number <= s.token; number++ {
		for kind := range len(m.kinds) + 1 {
			n := s
			n.requests[i] = modelRequest{stage: stageRead, number: number, kind: int8(kind)}
			add(n, "request %d begins: number %d, kind %d", i, number, kind)
		}
	}
}

func (m *model) decides(s modelState, i int, add addStep) {
	m.decide(s, i, 0, add)
	if s.record.pending && s.record.busy {
		owner := &s.requests[s.record.writer]
		dead := owner.stage == stageOver && !owner.insists
		if !dead && s.faults[faultStale] == 0 {
			return
		}
		if !dead {
			s.faults[faultStale]--
		}
		m.decide(s, i, bucket.Instant(modelTime.Milliseconds()), add)
	}
}

func (m *model) decide(s modelState, i int, now bucket.Instant, add addStep) {
	r := &s.requests[i]
	did := decide(m.lease, m.op(r), m.record(s.record), now, modelTime)
	switch did.ruling {
	case rulingDone:
		m.answer(&s, i)
	case rulingRefuse, rulingWait:
		r.stage = stageOver
	case rulingWrite:
		r.next = m.stored(&did.record, s.record.revision+1, i)
		r.expected, r.stage = s.record.revision, stageStore
		r.credits = m.vector(did.credits)
		if did.debits != nil {
			r.debits = m.vector(did.debits)
		}
	}
	add(s, "request %d decides %d at %d: credits %v, debits %v", i, did.ruling, now, r.credits, r.debits)
}

// answer answers a request as done.
func (m *model) answer(s *modelState, i int) {
	r := &s.requests[i]
	r.stage, r.answered = stageOver, true
	if int(r.kind) < len(m.kinds) {
		s.token = min(max(s.token, r.number+1), 3)
	}
}

// acknowledged goes on after the record is known to be stored.
func (m *model) acknowledged(s *modelState, i int) {
	r := &s.requests[i]
	r.given = r.credits != modelVector{}
	r.stage = stageSpend
	if r.debits == (modelVector{}) {
		m.answer(s, i)
	}
}

func (m *model) stores(s modelState, i int, add addStep) {
	r := s.requests[i]
	n := s
	if s.record.revision == r.expected {
		n.record = r.next
		m.acknowledged(&n, i)
	} else {
		n.requests[i].stage = stageRead
	}
	add(n, "request %d stores", i)
	if s.faults[faultRecord] == 0 || s.isLate {
		return
	}
	s.faults[faultRecord]--
	for _, late := range []bool{false, true} {
		n := s
		switch {
		case late:
			n.isLate, n.late, n.lateFor = true, r.next, r.expected
		case s.record.revision == r.expected:
			n.record = r.next
		default:
			continue
		}
		if q := &n.requests[i]; r.credits == (modelVector{}) && r.debits != (modelVector{}) {
			q.stage, q.next = stageSpend, modelRecord{} // unrecorded
		} else {
			q.insists = true
		}
		add(n, "request %d stores, unknown, late %v", i, late)
	}
}

func (m *model) insist(s modelState, i int, add addStep) {
	r := &s.requests[i]
	r.insists = false
	switch {
	case s.record.revision == r.expected:
		s.record = r.next
		m.acknowledged(&s, i)
	case s.record.revision == r.next.revision && s.record.writer == int8(i):
		m.acknowledged(&s, i)
	default:
		r.stage, r.credits = stageOver, modelVector{}
	}
	add(s, "request %d insists", i)
}

func (m *model) writeCredits(s modelState, i int, add addStep) {
	r := &s.requests[i]
	credits := r.credits.negated()
	r.given, r.credits = false, modelVector{}
	n := s
	n.drawn = s.drawn.plus(credits)
	add(n, "the credits of request %d are written", i)
	if s.faults[faultTable] > 0 && s.debt == (modelVector{}) {
		n := s
		n.faults[faultTable]--
		n.debt = credits
		add(n, "the credits of request %d are unknown: forgotten", i)
	}
}

// spends writes the next debit.
func (m *model) spends(s modelState, i int, add addStep) {
	r := &s.requests[i]
	part := slices.IndexFunc(r.debits[:], func(d int8) bool { return d > 0 })
	if part < 0 || r.written[part] < 0 {
		r.stage = stageEnd
		add(s, "request %d has written", i)
		return
	}
	var d modelVector
	d[part] = r.debits[part]
	n := s
	n.drawn = s.drawn.plus(d)
	q := &n.requests[i]
	q.debits[part], q.written[part] = 0, d[part]
	add(n, "request %d writes debit %d", i, part)
	if s.faults[faultThrottle] > 0 {
		n := s
		n.faults[faultThrottle]--
		n.requests[i].stage = stageEnd // what is not written is left
		add(n, "request %d is throttled at %d", i, part)
	}
	if s.faults[faultTable] > 0 && s.debt == (modelVector{}) {
		n := s
		n.faults[faultTable]--
		n.debt = d
		add(n, "debit %d of request %d is unknown: once more", part, i)
	}
}

func (m *model) ends(s modelState, i int, add addStep) {
	r := s.requests[i]
	if !r.next.exists { // unrecorded
		s.requests[i].stage = stageOver
		add(s, "request %d answers with the same token", i)
		return
	}
	finish := func(n *modelState) {
		if r.debits == (modelVector{}) {
			m.answer(n, i)
			return
		}
		n.requests[i].stage = stageOver
	}
	began := m.record(r.next)
	after := began.end(m.op(&r), m.table(r.written), m.table(r.debits))
	end := m.stored(&after, r.next.revision+1, i)
	n := s
	if s.record.revision != r.next.revision {
		n.requests[i].stage = stageOver
		add(n, "request %d was overtaken", i)
		return
	}
	n.record = end
	finish(&n)
	add(n, "request %d ends", i)
	if s.faults[faultRecord] > 0 && !s.isLate {
		s.faults[faultRecord]--
		n := s
		finish(&n) // lost
		add(n, "the end of request %d is lost", i)
		n.isLate, n.late, n.lateFor = true, end, r.next.revision
		add(n, "the end of request %d is late", i)
	}
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
