package loadgen

import (
	"cmp"
	"math"
	"math/bits"
	"slices"
	"sort"
	"time"

	"github.com/tidegate/tidegate/pkg/api"
)

// Unknown is the Received of an Entry whose reply never came: it may take
// effect at any time after it was sent.
const Unknown time.Duration = math.MaxInt64

// Entry is one reply that changed, or may have changed, what an entity's limits
// hold. Its effect falls somewhere between Sent and Received.
type Entry struct {
	Sent, Received time.Duration // since the start of the run
	// Admission: what was asked for had to be there. A settlement instead spends
	// whatever the balance is, or gives back.
	Admission bool
	// Amounts are whole tokens that were spent; negative ones were given back.
	Amounts api.Amounts
}

// Violation is a limit that admitted more than it may.
type Violation struct {
	Entity string  `json:"entity"`
	Limit  string  `json:"limit"`
	From   float64 `json:"from_s"` // seconds since the start of the run
	To     float64 `json:"to_s"`
	// Excess is how many tokens went out in this window, at the very least,
	// beyond capacity, refill and what was given back.
	Excess float64 `json:"excess_tokens"`
}

// milli is how many of the checker's units a token has; that of the system under
// test is the same, but nothing here depends on it.
const milli = 1000

// resolution is how coarse the system's own moments are, so by how much a window
// may be longer for it.
const resolution = time.Millisecond

// rounding is what a refill can seem larger or smaller than it is, in
// millitokens, because both sides cut fractions off.
const rounding = 2

// Rules are what the checker may rely on.
type Rules struct {
	// Slack is added to each window's length: by how much the clocks of the
	// system's nodes may differ.
	Slack time.Duration
	// Debts: every bucket has one shard, so that debt anywhere blocks admissions
	// everywhere. Debits then count as spent.
	Debts bool
}

// CheckLimit looks for a window of time in which a limit of an entity admitted
// more than its capacity, the refill of the window and what was given back in
// it. It knows nothing of how the system decides, only the replies:
//
//	spends that were sent and answered within the window certainly fall in it,
//	credits that were under way at any moment of the window possibly do.
//
// So what it finds is certain, whatever the true moments were. Where debts count,
// a debit that was answered before the last admission of the window was sent had
// to leave room for that admission. Of all windows it returns the one with the
// largest excess.
//
// The entries are those of one entity, in any order; entries of others who spend
// from the same limit may be missing, but not of others who give back.
// O(n log n).
func CheckLimit(limit api.Limit, entries []Entry, rules Rules) (Violation, bool) {
	c := newSweep(limit, entries, rules)
	worst, found := Violation{Limit: limit.Name}, false
	excess := int64(0)
	for _, a := range c.admissions {
		c.advance(a)
		value, start := c.windows.max()
		over := value - c.refilled(a.received+c.slack) - rounding - limit.Capacity*milli
		if over > excess {
			excess, found = over, true
			worst.From, worst.To = seconds(c.starts[start]), seconds(a.received)
			worst.Excess = float64(over) / milli
		}
	}
	return worst, found
}

func seconds(micros int64) float64 { return time.Duration(micros * 1000).Seconds() }

// event is an entry as one limit sees it.
type event struct {
	sent, received int64 // microseconds, rounded so that the interval only grows
	amount         int64 // millitokens, not negative
}

// sweep moves the end of the window along the moments at which admissions were
// answered, and keeps for every start what certainly went out since, less what
// possibly came in. Starts are the moments at which admissions and debits were
// sent: between these, a later start only makes the excess larger. The window's
// refill is split: R(end) − R(start).
type sweep struct {
	limit      api.Limit
	slack      int64
	admissions []event // by received
	debits     []event // by received; those not yet counted
	credits    []event // by sent; those not yet counted
	starts     []int64 // when admissions were sent, ascending
	windows    *peaks
	lastSent   int64 // of the admissions so far
}

func newSweep(limit api.Limit, entries []Entry, rules Rules) *sweep {
	s := &sweep{limit: limit, slack: (rules.Slack + resolution).Microseconds(), lastSent: -1}
	for _, e := range entries {
		tokens, _ := e.Amounts.Get(limit.Name)
		ev := event{sent: e.Sent.Microseconds(), received: math.MaxInt64, amount: max(tokens, -tokens) * milli}
		if e.Received != Unknown {
			ev.received = e.Received.Microseconds() + 1
		}
		switch {
		case e.Admission && e.Received != Unknown:
			s.admissions = append(s.admissions, ev) // 0 too: a limit in debt blocks it
			s.starts = append(s.starts, ev.sent)
		case tokens < 0:
			s.credits = append(s.credits, ev)
		case tokens > 0 && e.Received != Unknown && rules.Debts:
			s.debits = append(s.debits, ev)
			s.starts = append(s.starts, ev.sent)
		}
	}
	byReceived := func(a, b event) int { return cmp.Compare(a.received, b.received) }
	slices.SortFunc(s.admissions, byReceived)
	slices.SortFunc(s.debits, byReceived)
	slices.SortFunc(s.credits, func(a, b event) int { return cmp.Compare(a.sent, b.sent) })
	slices.Sort(s.starts)
	bases := make([]int64, len(s.starts))
	for i, at := range s.starts {
		bases[i] = s.refilled(at)
	}
	s.windows = newPeaks(bases)
	return s
}

// advance moves the end to where the admission was answered.
func (s *sweep) advance(a event) {
	for len(s.credits) > 0 && s.credits[0].sent <= a.received {
		s.count(s.credits[0].received, -s.credits[0].amount)
		s.credits = s.credits[1:]
	}
	s.spent(a)
	s.lastSent = max(s.lastSent, a.sent)
	for len(s.debits) > 0 && s.debits[0].received <= s.lastSent {
		s.spent(s.debits[0])
		s.debits = s.debits[1:]
	}
}

// spent counts what certainly went out. A window that starts with it is worth a
// look from now on.
func (s *sweep) spent(e event) {
	s.count(e.sent, e.amount)
	s.windows.wake(s.last(e.sent))
}

// count adds to all windows that start at a moment or before.
func (s *sweep) count(moment, amount int64) {
	if last := s.last(moment); last >= 0 {
		s.windows.add(last, amount)
	}
}

// last is the last start at a moment or before, −1 for none.
func (s *sweep) last(moment int64) int {
	return sort.Search(len(s.starts), func(i int) bool { return s.starts[i] > moment }) - 1
}

// refilled is how many millitokens the limit regains in so many microseconds.
func (s *sweep) refilled(micros int64) int64 {
	hi, lo := bits.Mul64(uint64(micros), uint64(s.limit.RefillAmount)*milli)
	quotient, _ := bits.Div64(hi, lo, uint64(s.limit.RefillPeriodSeconds)*1_000_000)
	return int64(quotient)
}
