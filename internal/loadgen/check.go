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

// Unknown is the Received of an Entry without a reply: the request may take
// effect at any time after it was sent.
const Unknown time.Duration = math.MaxInt64

// Entry records a reply that changed, or may have changed, the balances of an
// entity's limits. Its effect falls somewhere between Sent and Received.
type Entry struct {
	Sent, Received time.Duration // since the start of the run
	// Admission is true for an acquire, which needs a sufficient balance. A
	// settlement instead spends at any balance, or refunds.
	Admission bool
	// Amounts are the spent tokens, in whole tokens; a negative amount is a refund.
	Amounts api.Amounts
}

// Violation is a limit that admitted more than it may.
type Violation struct {
	Entity string  `json:"entity"`
	Limit  string  `json:"limit"`
	From   float64 `json:"from_s"` // seconds since the start of the run
	To     float64 `json:"to_s"`
	// Excess is the minimum number of tokens that were spent in this window beyond
	// capacity, refill and refunds.
	Excess float64 `json:"excess_tokens"`
}

// milli is the number of the checker's units in a token. The system under test has
// the same unit, but the checker does not depend on it.
const milli = 1000

// resolution is the resolution of the system's own clock, by which a window may be
// longer for the system.
const resolution = time.Millisecond

// rounding is the maximum error of a computed refill, in millitokens, because both
// sides round down.
const rounding = 2

// Rules holds the assumptions of the checker.
type Rules struct {
	// Slack is added to each window's length: by how much the clocks of the
	// system's nodes may differ.
	Slack time.Duration
	// Debts states that every bucket has a single shard, so that debt anywhere blocks
	// admissions everywhere. Debits then count as spent.
	Debts bool
}

// CheckLimit searches for a window of time in which a limit of an entity admitted
// more than the sum of its capacity, the refill of the window and the refunds in it.
// It uses only the replies, and no knowledge of the system's decisions:
//
//	spends that were sent and answered within the window certainly fall in it,
//	credits that were in flight at any moment of the window possibly do.
//
// So a reported excess is certain, whatever the true moments were. If debts count,
// a debit that was answered before the last admission of the window was sent had
// to leave room for that admission. CheckLimit returns the window with the largest
// excess.
//
// The entries belong to a single entity and may be in any order. Spends of other
// callers from the same limit may be missing, but refunds by other callers must be
// included. O(n log n).
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

// event is an entry's effect on a limit.
type event struct {
	sent, received int64 // microseconds, rounded so that the interval only grows
	amount         int64 // millitokens, not negative
}

// sweep moves the end of the window along the moments at which admissions were
// answered. For every start it keeps the sum of the certain spends since, less the
// possible credits. Starts are the moments at which admissions and debits were
// sent: between these, a later start only makes the excess larger. The window's
// refill is split: R(end) − R(start).
type sweep struct {
	limit      api.Limit
	slack      int64
	admissions []event // by received
	debits     []event // not yet counted, by received
	credits    []event // not yet counted, by sent
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

// spent counts a certain spend. From now on, the sweep considers windows that start
// with it.
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

// last returns the last start at or before a moment, −1 if there is no such start.
func (s *sweep) last(moment int64) int {
	return sort.Search(len(s.starts), func(i int) bool { return s.starts[i] > moment }) - 1
}

// refilled returns how many millitokens the limit regains in the given microseconds.
func (s *sweep) refilled(micros int64) int64 {
	hi, lo := bits.Mul64(uint64(micros), uint64(s.limit.RefillAmount)*milli)
	quotient, _ := bits.Div64(hi, lo, uint64(s.limit.RefillPeriodSeconds)*1_000_000)
	return int64(quotient)
}
