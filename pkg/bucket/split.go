package bucket

// SyncDrawn is what new settings do to the drawn count of a limit that is present:
// the difference of the refill counts is added, so that the balance stays. A
// raised capacity fills from what overflowed, then at its rate; a lowered one
// binds at once.
func SyncDrawn(from, to Limit, s Shard, now Instant) Change {
	c := unbounded()
	c.Amount = s.Share(to.Refilled(now)) - s.Share(from.Refilled(now))
	return c
}

// Removable reports whether a removed limit is full by its old settings, so that
// forgetting it mints nothing; drawn counts up to most say so.
func Removable(l Limit, s Shard, drawn int64, now Instant) (most int64, ok bool) {
	most = l.Window(s, now).Full()
	return most, drawn <= most
}

// SplitDrawn is what splitting a shard does to one limit: the new shard s.Index
// + s.Count starts with childDrawn, half of the balance, and own leaves the rest.
// The drawn counts of both sum to what they were, whatever was spent meanwhile.
func SplitDrawn(l Limit, s Shard, drawn int64, now Instant) (own Change, childDrawn int64) {
	balance := l.Window(s, now).Balance(drawn)
	keeps, child := s.Split()
	own = unbounded()
	if balance < 0 {
		// A debt is halved as refill is, so that both halves are out of debt at the
		// moment that the whole would be. That takes this very count: with any
		// other one, one half would hold tokens before, which the whole did not.
		childDrawn = floorDiv(drawn+1, 2)
		own.Amount, own.Min, own.Max = -childDrawn, drawn, drawn
		return own, childDrawn
	}
	refilled := l.Refilled(now)
	childDrawn = child.Share(refilled) - (balance+1)/2
	own.Amount = -childDrawn
	own.Max = keeps.Share(refilled) + childDrawn // what stays is no debt either
	return own, childDrawn
}

// MergeDrawn is what merging shard gone into shard into, both at one level,
// does to one limit. The write that deletes gone requires that its drawn count
// is at most goneMax. Overflow of one never fills the other.
func MergeDrawn(l Limit, into, gone ShardDrawn, now Instant) (own Change, goneMax int64) {
	w := l.Window(into.Shard, now)
	goneMax = max(gone.Drawn, l.Window(gone.Shard, now).Full())
	own = unbounded()
	if w.Idle(into.Drawn) {
		own.Set, own.Amount, own.Max = true, w.Full()+goneMax, w.Full()-1
	} else {
		own.Amount, own.Min = goneMax, w.Full()
	}
	return own, goneMax
}

// ttlFills is how many fills of its slowest limit a bucket item outlives its
// last write by.
const ttlFills = 7

// TTL is when an item of these limits expires if it is not written again, in
// unix seconds, rounded up. Any balance down to a debt of 5 capacities is full
// by then, so an item that expired says nothing that its absence does not.
func TTL(limits []Limit, now Instant) int64 {
	var slowest int64
	for _, l := range limits {
		slowest = max(slowest, l.FillTime())
	}
	// A limit that takes longer than int64 can say never expires.
	const horizon = saturated / ttlFills
	ms := int64(now) + EpochUnixMs + ttlFills*min(slowest, horizon)
	return (ms + 999) / 1000
}
