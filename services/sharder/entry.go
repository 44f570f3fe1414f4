package sharder

import (
	"math/bits"
	"slices"

	"github.com/tidegate/tidegate/pkg/bucket"
	"github.com/tidegate/tidegate/pkg/events"
)

const (
	// ringSeconds is the number of seconds of load that are kept: the seconds of staleMs, and a few
	// that may be ahead of this process's clock.
	ringSeconds = staleMs/1000 + 6
	// costsMs is how long the reported costs of requests are believed; they are reported each second.
	costsMs = 10_000
)

// entry is a bucket. Times are Unix milliseconds.
type entry struct {
	shards  []snapshot // by number; a removed shard stays, as a watermark
	wanted  int
	changed int64 // when the shards, or how many are wanted, changed last
	seen    int64 // when the last write was
	seconds [ringSeconds]second
	noRoom  [counts]int64

	print     string // of the settings that limits are of
	limits    []bucket.Limit
	costs     map[string]int64
	costsAt   int64
	overgrown int64

	busy      bool  // a step is under way
	failures  int   // of steps in a row
	notBefore int64 // no step before
}

// snapshot is the last seen state of a shard.
type snapshot struct {
	level int    // 0: it is gone
	at    string // position in the table's stream; empty where it was only read
	units int64  // that it had cost
	print string // of the settings that it was of; empty while not known
}

// second is the load of a second.
type second struct{ at, units int64 }

// shard is the snapshot of a shard, made if need be.
func (e *entry) shard(number int) *snapshot {
	for len(e.shards) <= number {
		e.shards = append(e.shards, snapshot{})
	}
	return &e.shards[number]
}

// take notes a change of a shard, unless it is known. It reports whether it was news.
func (e *entry) take(number int, c *events.Change[events.Bucket], at string, ms int64) bool {
	s := e.shard(number)
	if at <= s.at {
		return false
	}
	s.at = at
	if c.New == nil {
		s.level, s.units, e.changed = 0, 0, max(e.changed, ms)
		if number == 0 {
			e.wanted = 0
		}
		return true
	}
	var before events.Bucket
	if c.Old != nil {
		before = *c.Old
	}
	if c.New.ShardCount != before.ShardCount || c.New.Want != before.Want {
		if c.New.ShardCount > 1 || c.Old != nil {
			e.changed = max(e.changed, ms)
		}
	}
	s.level, s.units = c.New.ShardCount, c.New.WriteUnits
	e.seen = max(e.seen, ms)
	e.count(ms, c.New.WriteUnits-before.WriteUnits)
	if number == 0 {
		e.want(max(1, c.New.Want), ms)
	}
	e.learnFrom(s, before.Fingerprint, c.New)
	return true
}

// want notes how many shards are wanted. The request for more had a reason: fewer
// have had no room.
func (e *entry) want(count int, at int64) {
	if count > e.wanted {
		e.notObserved(bits.Len(uint(count))-1, at) //nolint:gosec // 1 or more
	}
	e.wanted = count
}

// notObserved says of the first so many numbers of shards that it is not known whether
// they had room until a moment.
func (e *entry) notObserved(first int, at int64) {
	for k := range min(first, counts) {
		e.noRoom[k] = max(e.noRoom[k], at)
	}
}

// learnFrom learns limits from the image of any shard. A shard that was brought to
// settings shows the settings that apply. A shard that is seen for the first time, with other settings than
// are known, may have been without spends since: the lower limits count, until
// a step reads the settings that apply. before is empty for the first image.
func (e *entry) learnFrom(s *snapshot, before string, image *events.Bucket) {
	print := image.Fingerprint
	first, synced := s.print == "", before != "" && before != print || s.print != "" && s.print != print
	s.print = print
	switch {
	case e.limits == nil || synced && e.print != print:
	case e.print == print && len(image.Limits) >= len(e.limits): // the usual case
		return
	case e.print != print && (!first || !lower(image, e.limits)):
		return
	}
	e.print, e.limits = print, limitsIn(image)
}

// lower reports whether an image has a lower capacity of any limit.
func lower(image *events.Bucket, known []bucket.Limit) bool {
	return slices.ContainsFunc(image.Limits, func(l events.BucketLimit) bool {
		return slices.ContainsFunc(known, func(k bucket.Limit) bool { return k.Name == l.Name && l.Capacity < k.Capacity })
	})
}

// limitsIn are the limits of an image.
func limitsIn(image *events.Bucket) []bucket.Limit {
	found := make([]bucket.Limit, len(image.Limits))
	for i, l := range image.Limits {
		found[i] = bucket.Limit{Name: l.Name, Capacity: l.Capacity, Refill: l.Refill, Period: l.PeriodMs}
	}
	return found
}

// count adds write units to the load of a second.
func (e *entry) count(ms, units int64) {
	if units <= 0 {
		return
	}
	at := ms / 1000
	s := &e.seconds[at%ringSeconds]
	switch {
	case s.at < at:
		*s = second{at: at}
	case s.at > at:
		return // of a time that is over
	}
	s.units += units
	e.crowd(s.units, ms)
}

// crowd notes which numbers of shards have no room for a load.
func (e *entry) crowd(load, ms int64) {
	for k := range e.noRoom {
		if load > roomy<<k {
			e.noRoom[k] = max(e.noRoom[k], ms)
		}
	}
}

func (e *entry) divided() bool {
	return e.wanted > 1 || slices.ContainsFunc(e.shards, func(s snapshot) bool { return s.level > 1 })
}

// view is the entry as a plan is made from it.
func (e *entry) view(now int64) view {
	v := view{wanted: e.wanted, changed: e.changed, noRoom: e.noRoom, limits: e.limits}
	if now < e.costsAt+costsMs {
		v.costs = e.costs
	}
	for number, s := range e.shards {
		there := s.level > 0
		v.leftOver = v.leftOver || there && number >= e.wanted
		v.lacking = v.lacking || there && number+s.level < e.wanted
	}
	for _, s := range e.seconds {
		if s.at*1000 >= now-staleMs && s.at >= (e.changed+settleMs)/1000 {
			v.load = max(v.load, s.units)
		}
	}
	switch {
	case e.wanted <= 1 || v.serves(e.wanted):
		e.overgrown = 0
	case e.overgrown == 0:
		e.overgrown = now
	}
	v.overgrown = e.overgrown
	return v
}
