package bucket

import "math"

// Window is one limit on one shard at one moment: what was refilled, and how
// much of it can be kept.
//
//	      Refilled − Capacity          Refilled
//	───────────────┼───────────────────────┼──────▶ drawn
//	 idle: full    │ busy: balance is      │ debt
//	 (overflows)   │ Refilled − drawn      │
type Window struct {
	Refilled int64 // S, millitokens
	Capacity int64 // C, millitokens
}

// Window is the limit on a shard at a moment.
func (l Limit) Window(s Shard, now Instant) Window {
	return Window{Refilled: s.Share(l.Refilled(now)), Capacity: s.Share(l.Capacity)}
}

// WindowNear is the window to plan a write by when others may write too. A shard
// that went idle at most grace milliseconds ago is looked at as of the moment at
// which it was just full: there it is busy and holds as much as now, and what
// others spend meanwhile keeps it busy, so that the plan stays right; as of now it
// is idle, and the first spend of somebody else makes it busy. Planning in the past
// adds at most grace × rate to what is admitted, as a clock that is behind by grace
// does.
func (l Limit) WindowNear(s Shard, now Instant, drawn, grace int64) Window {
	w := l.Window(s, now)
	if !w.Idle(drawn) || l.Window(s, now-Instant(grace)).Idle(drawn) {
		return w
	}
	return Window{Refilled: drawn + w.Capacity, Capacity: w.Capacity}
}

// fullAt is the least instant at which a shard of this drawn count is full.
func (l Limit) fullAt(s Shard, drawn int64) Instant {
	return l.reached((drawn+s.Share(l.Capacity))*int64(s.Count) - int64(s.Index))
}

// Balance is what the shard holds, in millitokens; negative is debt.
func (w Window) Balance(drawn int64) int64 { return min(w.Capacity, w.Refilled-drawn) }

// Full is the drawn count of a shard that has just become full.
func (w Window) Full() int64 { return w.Refilled - w.Capacity }

// Idle reports whether the shard is full and has overflowed.
func (w Window) Idle(drawn int64) bool { return drawn < w.Full() }

// Change is what a write does to a drawn count, and the inclusive range of
// drawn counts for which that is right: the write's condition.
type Change struct {
	Set      bool  // the drawn count becomes Amount; otherwise Amount is added
	Amount   int64 // millitokens
	Min, Max int64 // math.MinInt64 and math.MaxInt64 stand for no bound
}

func unbounded() Change { return Change{Min: math.MinInt64, Max: math.MaxInt64} }

// Holds reports whether the change is right for a drawn count.
func (c Change) Holds(drawn int64) bool { return c.Min <= drawn && drawn <= c.Max }

// Apply is the drawn count after the change.
func (c Change) Apply(drawn int64) int64 {
	if c.Set {
		return c.Amount
	}
	return drawn + c.Amount
}
