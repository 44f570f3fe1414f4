package bucket

// SyncDrawn returns the effect of new settings on the drawn count of an existing
// limit: it adds the difference of the refill counts, which preserves the balance. A
// raised capacity first regains the overflow, then fills at its rate; a lowered
// capacity applies at once.
func SyncDrawn(from, to Limit, s Shard, now Instant) Change {
	c := unbounded()
	c.Amount = s.Share(to.Refilled(now)) - s.Share(from.Refilled(now))
	return c
}

// Removable reports whether a removed limit is full by its old settings, so that
// deleting it creates no tokens. most is the highest drawn count for which that holds.
func Removable(l Limit, s Shard, drawn int64, now Instant) (most int64, ok bool) {
	most = l.Window(s, now).Full()
	return most, drawn <= most
}

// SplitDrawn returns the effect of splitting a shard on a limit: the new shard
// s.Index + s.Count starts with childDrawn, half of the balance, and own leaves the
// rest. The drawn counts of both sum to the previous count, even if other writers
// spend at the same time.
func SplitDrawn(l Limit, s Shard, drawn int64, now Instant) (own Change, childDrawn int64) {
	balance := l.Window(s, now).Balance(drawn)
	keeps, child := s.Split()
	own = unbounded()
	if balance < 0 {
		// A debt is halved as refill is, so that both halves leave the debt at the
		// same moment as the whole would. This requires exactly this count: with any
		// other, a half would hold tokens earlier than the whole.
		childDrawn = floorDiv(drawn+1, 2)
		own.Amount, own.Min, own.Max = -childDrawn, drawn, drawn
		return own, childDrawn
	}
	refilled := l.Refilled(now)
	childDrawn = child.Share(refilled) - (balance+1)/2
	own.Amount = -childDrawn
	own.Max = keeps.Share(refilled) + childDrawn // the remaining half is not in debt either
	return own, childDrawn
}

// MergeDrawn returns the effect on a limit of merging shard gone into shard into,
// both at the same level. The write that deletes gone requires that its drawn count
// is at most goneMax. The overflow of a shard never fills the other.
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

// ttlFills is the lifetime of a bucket item after its last write, in fill times of
// its slowest limit.
const ttlFills = 7

// TTL returns the time, in Unix seconds and rounded up, at which an item with these
// limits expires if it is not written again. Any balance down to a debt of 5
// capacities is full by then, and a missing item means a full bucket.
func TTL(limits []Limit, now Instant) int64 {
	var slowest int64
	for _, l := range limits {
		slowest = max(slowest, l.FillTime())
	}
	// A limit with a fill time beyond int64 never expires.
	const horizon = saturated / ttlFills
	ms := int64(now) + EpochUnixMs + ttlFills*min(slowest, horizon)
	return (ms + 999) / 1000
}
