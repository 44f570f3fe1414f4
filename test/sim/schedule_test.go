package sim_test

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing/synctest"
	"time"

	"github.com/tidegate/tidegate/test/sim/simnats"
)

// event is something that may happen next.
type event struct {
	party string // whose queue or call it is
	queue *simnats.Queue
	call  *call
}

// timer is something that happens at a moment of the scheduler's choice.
type timer struct {
	at time.Time
	do func()
}

// agenda holds the scheduler's own timers and the pauses of parties.
type agenda struct {
	timers []timer
	paused map[string]time.Time // by party
}

func (w *world) after(d time.Duration, do func()) {
	w.agenda.timers = append(w.agenda.timers, timer{time.Now().Add(d), do})
	slices.SortStableFunc(w.agenda.timers, func(a, b timer) int { return a.at.Compare(b.at) })
}

// until starts something in the background and runs the scheduler until done.
func (w *world) until(done func() bool, background func()) {
	if background != nil {
		go background()
	}
	for end := time.Now().Add(10 * time.Minute); ; w.step() {
		w.mu.Lock()
		is := done()
		w.mu.Unlock()
		if is {
			return
		}
		if time.Now().After(end) {
			w.fail("liveness", "a process hangs")
			return
		}
	}
}

// step lets one thing happen.
func (w *world) step() {
	synctest.Wait()
	w.steps++
	w.account.take(w.takeEnded())
	due := w.nats.Tick()
	now := time.Now()
	if len(w.agenda.timers) > 0 && !now.Before(w.agenda.timers[0].at) {
		do := w.agenda.timers[0].do
		w.agenda.timers = w.agenda.timers[1:]
		do()
		return
	}
	if w.work.due(now) {
		w.work.begin()
		return
	}
	w.disturb()
	events := w.events(now)
	if len(events) == 0 {
		w.pass(due, now)
		return
	}
	w.happen(events[w.rng.IntN(len(events))])
	time.Sleep(time.Duration(1 + w.rng.IntN(200_000)))
}

// events returns what may happen now, in an order that is the same in every run.
func (w *world) events(now time.Time) []event {
	var events []event
	for _, q := range w.nats.Queues() {
		if !w.isPaused(q.Party(), now) {
			events = append(events, event{party: q.Party(), queue: &q})
		}
	}
	w.mu.Lock()
	calls := slices.Clone(w.calls)
	w.mu.Unlock()
	slices.SortFunc(calls, func(a, b *call) int {
		return cmp.Or(strings.Compare(a.process.name, b.process.name), strings.Compare(a.label(), b.label()), cmp.Compare(a.number, b.number))
	})
	for _, c := range calls {
		if !now.Before(c.held) && (!c.executed || !w.isPaused(c.process.name, now)) {
			events = append(events, event{party: c.process.name, call: c})
		}
	}
	return events
}

func (w *world) isPaused(party string, now time.Time) bool { return now.Before(w.agenda.paused[party]) }

// happen lets an event happen, or holds it back.
func (w *world) happen(e event) {
	if w.disturbed("delay") && w.chance(w.plan.Faults.Delay) {
		w.struck("delay")
		until := time.Now().Add(time.Duration(1+w.rng.IntN(3000)) * time.Millisecond)
		if e.call != nil {
			e.call.held = until
		} else {
			w.nats.Stall(*e.queue, until)
		}
		w.note(e.party, e.party, "is held back")
		return
	}
	if e.call != nil {
		label := e.call.label()
		if executed := e.call.executed; executed {
			w.note("store", e.party, w.advanceCall(e.call)+" "+label)
		} else {
			w.note(e.party, "store", label+": "+w.advanceCall(e.call))
		}
		return
	}
	w.move(*e.queue)
}

// move moves messages of a link on.
func (w *world) move(q simnats.Queue) {
	head := w.nats.Head(q)
	n := 1
	if length := w.nats.Len(q); length > 1 {
		n += w.rng.IntN(length)
	}
	what := subjectLabel(head.Subject)
	if n > 1 {
		what = fmt.Sprintf("%s and %d more", what, n-1)
	}
	switch {
	case q.Inbound():
		if isSettlement(head.Subject) && w.disturbed("repeat") && w.chance(w.plan.Faults.Repeat) {
			w.struck("repeat")
			w.nats.Repeat(q)
			what += ", twice"
		}
		w.note(q.Party(), "nats", what)
	case w.mayLose(q, head) && w.disturbed("lose") && w.chance(w.plan.Faults.LoseMessage):
		w.struck("lost message")
		w.nats.Lose(q)
		w.note("nats", q.Party(), what+" is lost")
		return
	default:
		w.note("nats", q.Party(), what)
	}
	w.nats.Step(q, n)
}

// mayLose reports whether core NATS may lose a message: requests and replies of callers,
// and broadcasts between nodes.
func (w *world) mayLose(q simnats.Queue, head simnats.Head) bool {
	return strings.HasPrefix(head.Subject, "tidegate.") || strings.HasPrefix(q.Party(), callerService) && strings.HasPrefix(head.Subject, "_INBOX")
}

func isSettlement(subject string) bool {
	return strings.HasSuffix(subject, ".adjust") || strings.HasSuffix(subject, ".release")
}

var (
	randomToken   = regexp.MustCompile(`[A-Za-z0-9_-]{20,}`)
	consumerToken = regexp.MustCompile(`^(\$JS\.API\.CONSUMER\.[A-Z.]+\.[A-Z_a-z]+)\.([A-Za-z0-9]{8})(\..*)?$`)
)

// subjectLabel returns a subject without its random parts.
func subjectLabel(subject string) string {
	if strings.HasPrefix(subject, "_INBOX") {
		return "reply"
	}
	if strings.HasPrefix(subject, "$JS.ACK.") {
		return strings.Join(strings.Split(subject, ".")[:4], ".")
	}
	if strings.HasPrefix(subject, "$KV.") {
		return strings.Join(strings.Split(subject, ".")[:3], ".") // lease ids count a node's nonces
	}
	return randomToken.ReplaceAllString(consumerToken.ReplaceAllString(subject, "$1.*"), "*")
}

// pass lets time pass until something may happen.
func (w *world) pass(due, now time.Time) {
	until := now.Add(time.Second)
	consider := func(t time.Time) {
		if t.After(now) && t.Before(until) {
			until = t
		}
	}
	consider(due)
	consider(w.work.next)
	if len(w.agenda.timers) > 0 {
		consider(w.agenda.timers[0].at)
	}
	for _, t := range w.agenda.paused {
		consider(t)
	}
	w.mu.Lock()
	for _, c := range w.calls {
		consider(c.held)
	}
	w.mu.Unlock()
	select {
	case <-w.wake:
	default:
	}
	t := time.NewTimer(until.Sub(now))
	defer t.Stop()
	select {
	case <-w.wake:
	case <-t.C:
	}
}

// takeEnded returns the operations that have ended, in the order of their numbers.
func (w *world) takeEnded() []*operation {
	w.mu.Lock()
	ended := w.ended
	w.ended = nil
	w.mu.Unlock()
	slices.SortFunc(ended, func(a, b *operation) int { return cmp.Compare(a.number, b.number) })
	return ended
}
