package lease

import (
	"slices"

	"github.com/tidegate/tidegate/pkg/bucket"
)

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
