package sharder

import (
	"github.com/tidegate/tidegate/internal/shards"
	"github.com/tidegate/tidegate/pkg/bucket"
)

const (
	// tooMuch is 80 % of the 1,000 write units per second that a partition bears: a
	// shard that has as many is doubled. A load that doubles in 10 seconds takes 3
	// more to be throttled.
	tooMuch = 800
	// roomy is how many write units per second a shard may have after a merge. It is
	// less than tooMuch, so that merged shards are not doubled again at once.
	roomy = 600
	// idleMs is for how long fewer shards must have had room, in milliseconds.
	idleMs = 10 * 60_000
	// staleMs is how old evidence may be: the feed may be behind.
	staleMs = 10_000
	// settleMs is how long after a split the load is no evidence: throttled requests
	// are tried again then.
	settleMs = 2000
	// overgrownMs is for how long shares must have been too small for requests: the
	// costs of requests go up and down.
	overgrownMs = 60_000
	// counts is how many numbers of shards there are: 1, 2, 4, … [bucket.MaxShards].
	counts = 6
)

// kind is the kind of a step.
type kind int

const (
	stay   kind = iota // nothing
	double             // twice as many shards as there are wanted now
	spread             // the missing shards of the wanted number
	merge              // fewer
)

func (k kind) String() string { return [...]string{"stay", "double", "spread", "merge"}[k] }

// step is a change of a bucket's shards.
type step struct {
	kind kind
	from int // how many shards are wanted now
	to   int // and then
}

// view is the state of a bucket at a moment. Times are Unix milliseconds.
type view struct {
	wanted   int  // shards; 0: there is no bucket
	lacking  bool // a shard is wanted that is not there
	leftOver bool // a shard is there that is not wanted
	changed  int64
	// load is the most write units in a second that there is evidence of.
	load int64
	// noRoom is when 1, 2, 4, … shards last had no room for the load, or the bucket
	// was first seen.
	noRoom [counts]int64
	limits []bucket.Limit
	costs  map[string]int64 // the highest cost of most recent requests, in tokens
	// overgrown is since when shares do not serve; 0 while they do.
	overgrown int64
}

// plan returns the next step, or stay. It is a pure function.
func plan(v *view, now int64) step {
	at := step{from: v.wanted, to: v.wanted}
	if v.wanted == 0 {
		return at
	}
	if v.load >= tooMuch*int64(v.wanted) && v.serves(2*v.wanted) {
		at.kind, at.to = double, 2*v.wanted
		return at
	}
	if now < v.changed+settleMs { // the process that changes them may not be at the end
		return at
	}
	to := v.fewest(now)
	switch {
	case to < v.wanted:
		at.kind, at.to = merge, to
	case v.leftOver:
		at.kind = merge
	case v.lacking:
		at.kind = spread
	}
	return at
}

// serves reports whether shares of so many shards are as large as requests need
// them. Where not, the pressure is of denials or gathers, and more shards do not
// relieve it.
func (v *view) serves(count int) bool {
	return shards.Serves(v.limits, count, func(limit string) int64 { return v.costs[limit] * bucket.Milli })
}

// fewest is the least number of shards that had room for long enough, or that
// is left where shares have not served for long enough.
func (v *view) fewest(now int64) int {
	to := v.wanted
	for k := range counts {
		if 1<<k < to && now >= v.noRoom[k]+idleMs {
			to = 1 << k
			break
		}
	}
	if v.overgrown != 0 && now >= v.overgrown+overgrownMs {
		for to > 1 && !v.serves(to) {
			to /= 2
		}
	}
	return to
}
