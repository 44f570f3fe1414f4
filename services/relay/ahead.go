package relay

// When the feed has no room for more buckets, they wait in DynamoDB's stream, and the
// other kinds are read ahead of them: limits stay live and audit events are archived
// while no aggregator runs. The marker of a stream shard then has two places, so that
// a single fence serves both:
//
//	                 Sequence                        Ahead
//	stream shard ───────┼───────────────────────────────┼──────────────▶
//	         all is in the feed    all but buckets is       not read
//
// Once there is room, the reader goes back to the first place and publishes the
// buckets behind it. An item's changes stay in order: they are of the same kind.

// from returns the place that reading goes on from, with or without buckets.
func (c *checkpoint) from(ahead bool) string {
	if ahead && later(c.Ahead, c.Sequence) {
		return c.Ahead
	}
	return c.Sequence
}

// next returns the checkpoint behind a page that ended at a position, or at the end
// of the stream shard.
func (c checkpoint) next(ahead bool, position string, closed bool) checkpoint {
	if ahead {
		c.Ahead, c.AheadClosed = position, closed
		return c
	}
	c.Sequence, c.Closed = position, closed
	if closed || !c.AheadClosed && !later(c.Ahead, position) {
		c.Ahead, c.AheadClosed = "", false
	}
	return c
}

// passed reports whether all but buckets is in the feed, up to the shard's end.
func (c *checkpoint) passed() bool { return c.Closed || c.AheadClosed }

// turn decides whether the reader leaves buckets for later, and where it goes on.
func (r *reader) turn() {
	r.passed.Store(r.mark.passed())
	if ahead := r.partly || !r.relay.room.forBuckets(); ahead != r.ahead {
		r.begin()
		r.ahead, r.horizon = ahead, false
		r.position = r.mark.from(ahead)
	}
}

// isFor reports whether a record is for the feed now, and was not there before.
func (r *reader) isFor(sequence string, bucket bool) bool {
	if bucket {
		return !r.ahead
	}
	return r.ahead || later(sequence, r.mark.Ahead)
}
