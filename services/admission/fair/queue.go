package fair

import (
	"container/heap"
	"container/list"
	"time"
)

// Class says how urgent the work of a ticket is within its namespace.
type Class uint8

// The classes, the most urgent first.
const (
	Settle  Class = iota // settles a lease
	Acquire              // spends, or reads
	classes
)

// settlesInARow is how many settlements of a namespace go before an acquire of it that
// waits longer.
const settlesInARow = 4

// Ticket stands for the owner of a turn. Its fields belong to the gate.
type Ticket struct {
	start   func() // called when a turn is there that the ticket has waited for
	tenant  *tenant
	class   Class
	place   *list.Element // in the queue; nil while it does not wait
	running bool
	since   time.Duration // when the turn began
}

// NewTicket returns an idle ticket. start is called when a turn comes that the ticket has
// waited for. It must not block, nor call the gate.
func NewTicket(start func()) Ticket { return Ticket{start: start} }

// tenant holds the tickets of a namespace that wait, and counts its turns.
type tenant struct {
	name    string
	held    int    // turns
	served  uint64 // when it last began to wait or got a turn, in the queue's count
	waiting [classes]list.List
	settled int // settlements in a row that went before a waiting acquire
	index   int // in the heap; -1 while nothing waits
}

func (n *tenant) length() int { return n.waiting[Settle].Len() + n.waiting[Acquire].Len() }

// next removes the ticket whose turn it is from the namespace's queue, which is not empty.
func (n *tenant) next() *Ticket {
	class := Settle
	acquires := n.waiting[Acquire].Len() > 0
	if n.waiting[Settle].Len() == 0 || (acquires && n.settled >= settlesInARow) {
		class = Acquire
	}
	n.settled++
	if class == Acquire || !acquires {
		n.settled = 0
	}
	t, _ := n.waiting[class].Remove(n.waiting[class].Front()).(*Ticket)
	t.place = nil
	return t
}

// queue holds the tickets that wait, and knows the turns of each namespace. It forgets a
// namespace without turns and tickets.
type queue struct {
	tenants map[string]*tenant
	backlog backlog // the namespaces with tickets that wait
	count   uint64
	length  [classes]int // tickets that wait
}

func (q *queue) waiting() int { return q.length[Settle] + q.length[Acquire] }

// tenant returns a namespace, a new one where it is unknown.
func (q *queue) tenant(name string) *tenant {
	n, ok := q.tenants[name]
	if !ok {
		n = &tenant{name: name, index: -1}
		if q.tenants == nil {
			q.tenants = make(map[string]*tenant)
		}
		q.tenants[name] = n
	}
	return n
}

// push adds a ticket at the end of its namespace's queue.
func (q *queue) push(t *Ticket, name string, class Class) {
	n := q.tenant(name)
	t.tenant, t.class = n, class
	t.place = n.waiting[class].PushBack(t)
	q.length[class]++
	if n.index < 0 {
		n.served = q.tick()
		heap.Push(&q.backlog, n)
	}
}

// pop gives a turn to the ticket whose turn it is. It returns nil if no ticket waits.
func (q *queue) pop() *Ticket {
	if len(q.backlog) == 0 {
		return nil
	}
	n := q.backlog[0]
	t := n.next()
	q.length[t.class]--
	q.take(t, n)
	return t
}

// take gives a turn to a ticket of a namespace.
func (q *queue) take(t *Ticket, n *tenant) {
	t.tenant, t.running = n, true
	n.held++
	n.served = q.tick()
	q.changed(n)
}

// free takes the turn back.
func (q *queue) free(t *Ticket) {
	n := t.tenant
	t.tenant, t.running = nil, false
	n.held--
	q.changed(n)
}

// remove takes a ticket that waits out of the queue.
func (q *queue) remove(t *Ticket) {
	n := t.tenant
	n.waiting[t.class].Remove(t.place)
	q.length[t.class]--
	t.tenant, t.place = nil, nil
	q.changed(n)
}

// changed restores the order of the backlog after a change of a namespace.
func (q *queue) changed(n *tenant) {
	switch {
	case n.index < 0:
	case n.length() == 0:
		heap.Remove(&q.backlog, n.index)
	default:
		heap.Fix(&q.backlog, n.index)
	}
	if n.held == 0 && n.length() == 0 {
		delete(q.tenants, n.name)
	}
}

// ahead returns how many turns go before a new ticket of a namespace, at most: as long as
// other namespaces wait, each gets a turn for each of this one.
func (q *queue) ahead(name string) int {
	own, rounds := 0, len(q.backlog)
	n, ok := q.tenants[name]
	if ok {
		own = n.length()
	}
	if own == 0 {
		rounds++
	}
	return min(q.waiting(), (own+1)*rounds-1)
}

func (q *queue) tick() uint64 {
	q.count++
	return q.count
}

// backlog is a heap of namespaces: the namespace whose turn it is comes first.
type backlog []*tenant

func (b backlog) Len() int { return len(b) }

func (b backlog) Less(i, j int) bool {
	if b[i].held != b[j].held {
		return b[i].held < b[j].held
	}
	return b[i].served < b[j].served
}

func (b backlog) Swap(i, j int) {
	b[i], b[j] = b[j], b[i]
	b[i].index, b[j].index = i, j
}

// Push implements heap.Interface.
func (b *backlog) Push(x any) {
	n, _ := x.(*tenant)
	n.index = len(*b)
	*b = append(*b, n)
}

// Pop implements heap.Interface.
func (b *backlog) Pop() any {
	last := len(*b) - 1
	n := (*b)[last]
	(*b)[last] = nil
	*b = (*b)[:last]
	n.index = -1
	return n
}
