package bucket

import "math"

// Window is the state of a limit on a shard at a given moment: the refill count, and
// the shard's capacity.
//
//	      Refilled − Capacity          Refilled
//	───────────────┼───────────────────────┼──────▶ drawn
//	 idle: full    │ busy: balance is      │ debt
//	 (overflows)   │ Refilled − drawn      │
type Window struct {
	Refilled int64 // S, millitokens
	Capacity int64 // C, millitokens
}

// Window returns the limit's window on a shard at a moment.
func (l Limit) Window(s Shard, now Instant) Window {
	return Window{Refilled: s.Share(l.Refilled(now)), Capacity: s.Share(l.Capacity)}
}

// WindowNear returns the window to plan a write with while other writers may write
// too. For a shard that went idle at most grace milliseconds ago, it returns the
// window of the moment at which the shard had just become full. In that window the
// shard is busy and holds as much as now, and spends of other writers keep it busy,
// so that the plan stays valid. In the window of now it is idle, and the first spend
// of another writer would make it busy and the plan invalid. Planning in the past
// admits at most grace × rate more, like a clock that is behind by grace.
func (l Limit) WindowNear(s Shard, now Instant, drawn, grace int64) Window {
	w := l.Window(s, now)
	if !w.Idle(drawn) || l.Window(s, now-Instant(grace)).Idle(drawn) {
		return w
	}
	return Window{Refilled: drawn + w.Capacity, Capacity: w.Capacity}
}

// fullAt returns the least instant at which a shard with this drawn count is full.
func (l Limit) fullAt(s Shard, drawn int64) Instant {
	return l.reached((drawn+s.Share(l.Capacity))*int64(s.Count) - int64(s.Index))
}

// Balance returns the shard's balance, in millitokens; negative is debt.
func (w Window) Balance(drawn int64) int64 { return min(w.Capacity, w.Refilled-drawn) }

// Full returns the drawn count of a shard that has just become full.
func (w Window) Full() int64 { return w.Refilled - w.Capacity }

// Idle reports whether the shard is full and has overflowed.
func (w Window) Idle(drawn int64) bool { return drawn < w.Full() }

// Change is the effect of a write on a drawn count, and the inclusive range of
// drawn counts for which it is correct: the write's condition.
type Change struct {
	Set      bool  // the drawn count becomes Amount; otherwise Amount is added
	Amount   int64 // millitokens
	Min, Max int64 // math.MinInt64 and math.MaxInt64 stand for no bound
}

func unbounded() Change { return Change{Min: math.MinInt64, Max: math.MaxInt64} }

// Holds reports whether the change is correct for a drawn count.
func (c Change) Holds(drawn int64) bool { return c.Min <= drawn && drawn <= c.Max }

// Apply returns the drawn count after the change.
func (c Change) Apply(drawn int64) int64 {
	if c.Set {
		return c.Amount
	}
	return drawn + c.Amount
}
