package bucket

// Tally applies operations, in order, to a limit's known drawn count and composes
// them into a single Change. For every drawn count that the Change holds for,
// applying it equals applying the operations in sequence, each under its own
// condition.
type Tally struct {
	window   Window
	known    int64 // the drawn count before all operations
	change   Change
	consumed int64
}

// NewTally starts from a known drawn count.
func NewTally(w Window, drawn int64) Tally {
	return Tally{window: w, known: drawn, change: unbounded()}
}

// drawn returns the count after the operations so far.
func (t *Tally) drawn() int64 { return t.change.Apply(t.known) }

// Balance returns the balance after the operations so far, in millitokens.
func (t *Tally) Balance() int64 { return t.window.Balance(t.drawn()) }

// Spend takes cost millitokens, 0 included, if the balance holds them; a limit
// in debt refuses even 0. If refused, it changes nothing.
func (t *Tally) Spend(cost int64) bool {
	if t.Balance() < cost {
		return false
	}
	if cost == 0 {
		t.atMost(t.window.Refilled)
		return true
	}
	t.take(cost, t.window.Refilled-cost)
	return true
}

// Debit takes k millitokens whatever the balance is, unless the debt would exceed
// MaxDebt. In that case it changes nothing and returns false.
func (t *Tally) Debit(k int64) bool {
	deepest := t.window.Refilled + MaxDebt
	if t.drawn() > deepest-k {
		return false
	}
	t.take(k, deepest-k)
	return true
}

// Credit returns k millitokens to the balance. The capacity applies when the balance is read.
// The count falls at most to MaxDebt below that of a full bucket, which keeps it
// within int64: it returns true if that bound takes effect.
func (t *Tally) Credit(k int64) (clamped bool) {
	t.consumed -= k
	lowest := t.window.Full() - MaxDebt
	if t.drawn() < lowest+k {
		t.atMost(lowest + k - 1)
		t.set(lowest)
		return true
	}
	t.atLeast(lowest + k)
	t.change.Amount -= k
	return false
}

// CapDebt restricts the change to counts that it leaves with at most debt millitokens
// of debt. If the known count is beyond that, it changes nothing and returns false.
func (t *Tally) CapDebt(debt int64) bool {
	most := t.window.Refilled + debt
	if t.drawn() > most {
		return false
	}
	t.atMost(most)
	return true
}

// Change returns the composed change.
func (t *Tally) Change() Change { return t.change }

// Consumed returns the net change of the consumption counter, in millitokens.
func (t *Tally) Consumed() int64 { return t.consumed }

// take adds k to a busy count of at most highest. It sets an idle count to k above
// full, because the overflow counts as drawn.
func (t *Tally) take(k, highest int64) {
	t.consumed += k
	if t.window.Idle(t.drawn()) {
		t.atMost(t.window.Full() - 1)
		t.set(t.window.Full() + k)
		return
	}
	t.atLeast(t.window.Full())
	t.atMost(highest)
	t.change.Amount += k
}

func (t *Tally) set(drawn int64) { t.change.Set, t.change.Amount = true, drawn }

// atMost and atLeast bound the count as it is now; once the change sets the count, no bound is needed.
func (t *Tally) atMost(drawn int64) {
	if !t.change.Set {
		t.change.Max = min(t.change.Max, drawn-t.change.Amount)
	}
}

func (t *Tally) atLeast(drawn int64) {
	if !t.change.Set {
		t.change.Min = max(t.change.Min, drawn-t.change.Amount)
	}
}
