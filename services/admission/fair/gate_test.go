package fair

import (
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// owner is a ticket of the model.
type owner struct {
	Ticket
	id        int
	namespace string
	class     Class
	passed    map[string]int // starts of other namespaces while this one waits without a turn
}

// model checks a gate with a fixed limit against the promises of the package.
type model struct {
	t       *rapid.T
	gate    *Gate
	limit   int
	now     time.Duration
	next    int
	waiting []*owner // in order of arrival at their class
	running []*owner
	inARow  map[string]int // settlements of a namespace that went before an acquire of it
}

func (m *model) newOwner() *owner {
	o := &owner{
		id: m.next, namespace: strconv.Itoa(rapid.IntRange(0, 4).Draw(m.t, "namespace")),
		class: Class(rapid.IntRange(0, 1).Draw(m.t, "class")), passed: map[string]int{},
	}
	m.next++
	o.Ticket = NewTicket(func() { m.started(o) })
	return o
}

func (m *model) held(namespace string) (n int) {
	for _, o := range m.running {
		if o.namespace == namespace {
			n++
		}
	}
	return n
}

// started checks that a ticket is the next that may start.
func (m *model) started(o *owner) {
	at := slices.Index(m.waiting, o)
	require.GreaterOrEqual(m.t, at, 0, "a ticket starts that does not wait")
	acquireWaits := false
	for i, other := range m.waiting {
		if other.namespace == o.namespace {
			require.False(m.t, other.class == o.class && i < at, "%d of %s overtakes %d", o.id, o.namespace, other.id)
			acquireWaits = acquireWaits || other.class == Acquire
			continue
		}
		require.LessOrEqual(m.t, m.held(o.namespace), m.held(other.namespace), "%s starts, and %s waits with fewer turns", o.namespace, other.namespace)
	}
	switch {
	case o.class == Acquire || !acquireWaits:
		m.inARow[o.namespace] = 0
	default:
		m.inARow[o.namespace]++
		require.LessOrEqual(m.t, m.inARow[o.namespace], settlesInARow, "an acquire of %s starves", o.namespace)
	}
	m.waiting = slices.Delete(m.waiting, at, at+1)
	for _, other := range m.waiting {
		if other.namespace != o.namespace && m.held(other.namespace) == 0 {
			other.passed[o.namespace]++
		}
	}
	for _, other := range m.waiting {
		if first := m.first(other.namespace); first == other {
			require.LessOrEqual(m.t, other.passed[o.namespace], 1, "%s passes %s twice in a round", o.namespace, other.namespace)
		}
	}
	m.running = append(m.running, o)
	for _, other := range m.waiting { // a namespace that was served begins another round
		if other.namespace == o.namespace {
			clear(other.passed)
		}
	}
}

// first returns the ticket of a namespace that waits longest.
func (m *model) first(namespace string) *owner {
	return m.waiting[slices.IndexFunc(m.waiting, func(o *owner) bool { return o.namespace == namespace })]
}

func (m *model) enter(*rapid.T) {
	o := m.newOwner()
	m.waiting = append(m.waiting, o)
	m.gate.Enter(&o.Ticket, o.namespace, o.class, m.now)
}

func (m *model) try(t *rapid.T) {
	o := m.newOwner()
	free := len(m.running) < m.limit
	require.Equal(t, free, m.gate.Try(&o.Ticket, o.namespace, m.now))
	if free {
		m.running = append(m.running, o)
	}
}

func (m *model) leave(t *rapid.T) {
	if len(m.running) == 0 {
		t.Skip("no ticket has a turn")
	}
	at := rapid.IntRange(0, len(m.running)-1).Draw(t, "running")
	o := m.running[at]
	m.running = slices.Delete(m.running, at, at+1)
	m.gate.Leave(&o.Ticket, m.now)
}

func (m *model) cancel(t *rapid.T) {
	if len(m.running) > 0 {
		require.False(t, m.gate.Cancel(&m.running[0].Ticket), "a turn is no wait")
	}
	if len(m.waiting) == 0 {
		t.Skip("no ticket waits")
	}
	at := rapid.IntRange(0, len(m.waiting)-1).Draw(t, "waiting")
	o := m.waiting[at]
	m.waiting = slices.Delete(m.waiting, at, at+1)
	require.True(t, m.gate.Cancel(&o.Ticket))
	require.False(t, m.gate.Cancel(&o.Ticket))
}

func (m *model) promote(t *rapid.T) {
	if len(m.waiting) == 0 {
		t.Skip("no ticket waits")
	}
	at := rapid.IntRange(0, len(m.waiting)-1).Draw(t, "waiting")
	o := m.waiting[at]
	if o.class == Acquire {
		m.waiting = append(slices.Delete(m.waiting, at, at+1), o)
		o.class = Settle
		clear(o.passed)
	}
	m.gate.Promote(&o.Ticket)
}

// check requires that no turn is idle while tickets wait, and that only namespaces with
// turns or tickets are remembered.
func (m *model) check(t *rapid.T) {
	m.now += time.Millisecond
	s := m.gate.Stats()
	require.Equal(t, len(m.running), s.Running)
	require.Equal(t, len(m.waiting), s.Waiting[Settle]+s.Waiting[Acquire])
	require.LessOrEqual(t, s.Running, m.limit)
	if len(m.waiting) > 0 {
		require.Equal(t, m.limit, s.Running, "a turn is free while tickets wait")
	}
	known := map[string]bool{}
	for _, o := range slices.Concat(m.waiting, m.running) {
		known[o.namespace] = true
	}
	require.Len(t, m.gate.queue.tenants, len(known))
}

func TestTurnsAreShared(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := &model{t: t, limit: rapid.IntRange(1, 6).Draw(t, "limit"), inARow: map[string]int{}}
		m.gate = NewGate(Limits{Min: m.limit, Max: m.limit, Start: m.limit})
		t.Repeat(map[string]func(*rapid.T){
			"enter": m.enter, "enter too": m.enter, "try": m.try, "leave": m.leave, "cancel": m.cancel, "promote": m.promote, "": m.check,
		})
		for len(m.running) > 0 { // every ticket that was not cancelled gets its turn
			o := m.running[0]
			m.running = m.running[1:]
			m.gate.Leave(&o.Ticket, m.now)
		}
		require.Empty(t, m.waiting)
		require.Empty(t, m.gate.queue.tenants)
	})
}

// However many tickets a namespace queues, another gets every second turn from its first on.
func TestALongQueueDelaysNobodyBeyondARound(t *testing.T) {
	g := NewGate(Limits{Min: 1, Max: 1, Start: 1})
	var order []string
	var running *Ticket
	enter := func(namespace string, n int) {
		for range n {
			ticket := new(Ticket)
			*ticket = NewTicket(func() { order, running = append(order, namespace), ticket })
			g.Enter(ticket, namespace, Acquire, 0)
		}
	}
	enter("loud", 1000)
	enter("other", 3)
	for range 6 {
		g.Leave(running, 0)
	}
	require.Equal(t, []string{"loud", "loud", "other", "loud", "other", "loud", "other"}, order)
}

// Calls of a namespace hang: it keeps the turns that it has, and gets no others while other
// namespaces wait.
func TestANamespaceThatHangsHoldsNoMoreThanItHas(t *testing.T) {
	g := NewGate(Limits{Min: 4, Max: 4, Start: 4})
	var healthy []*Ticket
	served := map[string]int{}
	enter := func(namespace string) {
		ticket := new(Ticket)
		*ticket = NewTicket(func() {
			served[namespace]++
			if namespace == "healthy" {
				healthy = append(healthy, ticket)
			}
		})
		g.Enter(ticket, namespace, Acquire, 0)
	}
	for range 100 {
		enter("healthy")
		enter("hangs")
	}
	for range 60 {
		ended := healthy[0]
		healthy = healthy[1:]
		g.Leave(ended, 0)
	}
	require.Equal(t, 2, served["hangs"], "half of the turns are its share, for as long as they last")
	require.Equal(t, 62, served["healthy"])
}

func TestTheWaitIsEstimated(t *testing.T) {
	g := NewGate(Limits{Min: 2, Max: 2, Start: 2})
	tickets := make([]Ticket, 40)
	for i := range tickets {
		tickets[i] = NewTicket(func() {})
	}
	require.True(t, g.Try(&tickets[0], "a", 0))
	g.Leave(&tickets[0], 10*time.Millisecond)
	require.Zero(t, g.Wait("a"), "turns are free")
	for i := range 22 {
		g.Enter(&tickets[i], "a", Acquire, 0)
	}
	require.Equal(t, 10*time.Millisecond+21*5*time.Millisecond, g.Wait("a"), "20 wait, two turns of 10 ms at a time")
	require.Equal(t, 10*time.Millisecond+2*5*time.Millisecond, g.Wait("b"), "one of a goes before it")
}

func TestAwayIsTheStoreThatDoesNotAnswer(t *testing.T) {
	g := NewGate(Limits{Min: 1, Max: 1, Start: 1})
	first, second := NewTicket(func() {}), NewTicket(func() {})
	now := time.Hour
	require.True(t, g.Try(&first, "a", now))
	g.Enter(&second, "a", Acquire, now)
	require.False(t, g.Away(now), "the call has just begun")
	require.True(t, g.Away(now+time.Second), "no call ends while others wait")
	g.Ended(Call{Form: "read", Took: time.Second, Measured: true, Answered: true}, now+time.Second)
	require.False(t, g.Away(now+time.Second))
	for range failedCalls {
		require.False(t, g.Away(now+time.Second))
		g.Ended(Call{Form: "read"}, now+time.Second)
	}
	require.True(t, g.Away(now+time.Second), "calls end without an answer")
	g.Ended(Call{Form: "read", Answered: true}, now+time.Second)
	require.False(t, g.Away(now+time.Second))
}

func TestShares(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		room := rapid.IntRange(1, 200).Draw(t, "room")
		s := NewShares(room)
		taken := map[string]int{}
		total := 0
		t.Repeat(map[string]func(*rapid.T){
			"take": func(t *rapid.T) {
				name := strconv.Itoa(rapid.IntRange(0, 3).Draw(t, "namespace"))
				got := s.Take(name)
				require.Equal(t, taken[name] < shareOfFree*(room-total), got)
				if got {
					taken[name]++
					total++
				}
			},
			"give": func(t *rapid.T) {
				name := strconv.Itoa(rapid.IntRange(0, 3).Draw(t, "namespace"))
				if taken[name] == 0 {
					t.Skip("it has none")
				}
				taken[name]--
				total--
				s.Give(name)
			},
			"": func(t *rapid.T) {
				require.LessOrEqual(t, total, room)
				require.LessOrEqual(t, len(s.taken), total)
			},
		})
	})
}

func TestAFullRoomHasRoomForAnother(t *testing.T) {
	s := NewShares(1000)
	for range 2000 {
		s.Take("a")
	}
	require.Equal(t, 800, s.taken["a"])
	for range 2000 {
		s.Take("b")
	}
	require.Equal(t, 160, s.taken["b"])
	require.True(t, s.Take("c"))
}
