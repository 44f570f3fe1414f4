package fault

import (
	"slices"
	"time"
)

// Partitions configure the model of DynamoDB's partitions. The zero value of each
// field is DynamoDB's value, or a stricter value.
type Partitions struct {
	// WriteUnits and ReadUnits are the units that a partition serves per second.
	// Default: 1000 and 3000.
	WriteUnits, ReadUnits float64
	// Burst is the time for which unused capacity is kept, beyond the current
	// second. DynamoDB keeps up to 300 s, without a guarantee. Default: 0.
	Burst time.Duration
	// Count is the initial number of partitions of each table and index, with key
	// ranges of equal size. Default: 1.
	Count int
	// SplitAfter is the time after which a throttled partition splits in two. The
	// time restarts after a second without throttles. Default: 0, never. DynamoDB
	// takes minutes.
	SplitAfter time.Duration
}

func (o Partitions) orDefaults() Partitions {
	if o.WriteUnits <= 0 {
		o.WriteUnits = 1000
	}
	if o.ReadUnits <= 0 {
		o.ReadUnits = 3000
	}
	o.Count = max(o.Count, 1)
	return o
}

// Load holds the requests to a partition in some time.
type Load struct {
	Offered   float64 // units, of throttled requests too, as far as they can be foreseen
	Passed    float64 // units
	Throttled int64   // requests, or items of batches and transactions
}

// Second holds the load of a second of the clock.
type Second struct {
	At          time.Time // its beginning
	Write, Read Load
}

// Partition holds a key range of a table or an index, and its load.
type Partition struct {
	Resource string // a table's name, or table/index/name
	From, To uint64 // of the partition key's hash, both included
	Seconds  []Second
}

// keptSeconds bounds the history of a partition.
const keptSeconds = 3600

// lane is a partition's capacity for writes, or for reads: a token bucket that may
// go into debt, because the cost of a request is known only afterwards.
type lane struct {
	rate, depth float64
	tokens      float64
	at          time.Time // up to when the tokens are refilled
	heat        heat
}

func newLane(rate float64, burst time.Duration, now time.Time) lane {
	depth := rate * (1 + burst.Seconds())
	return lane{rate: rate, depth: depth, tokens: depth, at: now}
}

// take spends units, or reports that the partition is exhausted. A request larger
// than the bucket passes if the bucket is full.
func (l *lane) take(units float64, now time.Time) bool {
	const rounding = 1e-6 // of float64, over hours of refills
	if past := now.Sub(l.at); past > 0 {
		l.tokens = min(l.depth, l.tokens+l.rate*past.Seconds())
		l.at = now
	}
	if l.tokens+rounding < min(units, l.depth) {
		return false
	}
	l.tokens -= units
	return true
}

// heat is a period of throttling without a pause of more than a second.
type heat struct {
	since, last time.Time
	low, high   uint64 // hashes of the throttled keys
}

// feel records a throttle. It returns the duration of the heat so far, and reports
// whether it concerns several partition keys.
func (h *heat) feel(hash uint64, now time.Time) (lasted time.Duration, several bool) {
	if h.since.IsZero() || now.Sub(h.last) > time.Second {
		*h = heat{since: now, low: hash, high: hash}
	}
	h.last = now
	h.low, h.high = min(h.low, hash), max(h.high, hash)
	return now.Sub(h.since), h.low != h.high
}

// partition is a key range.
type partition struct {
	from, to    uint64
	write, read lane
	seconds     []Second
}

func (p *partition) lane(write bool) *lane {
	if write {
		return &p.write
	}
	return &p.read
}

// load returns the counter of the current second.
func (p *partition) load(write bool, now time.Time) *Load {
	at := now.Truncate(time.Second)
	if n := len(p.seconds); n == 0 || p.seconds[n-1].At.Before(at) {
		if n >= 2*keptSeconds {
			p.seconds = slices.Clone(p.seconds[n-keptSeconds:])
		}
		p.seconds = append(p.seconds, Second{At: at})
	}
	last := &p.seconds[len(p.seconds)-1]
	if write {
		return &last.Write
	}
	return &last.Read
}

// space is the hash range of a table or an index: partitions in order, without gaps.
type space struct {
	resource string
	arn      string
	parts    []*partition
}

func newSpace(resource, arn string, o Partitions, now time.Time) *space {
	s := &space{resource: resource, arn: arn}
	const top = ^uint64(0)
	width := top / uint64(o.Count)
	for i := range uint64(o.Count) {
		s.parts = append(s.parts, &partition{
			from: i * width, to: (i+1)*width - 1,
			write: newLane(o.WriteUnits, o.Burst, now), read: newLane(o.ReadUnits, o.Burst, now),
		})
	}
	s.parts[o.Count-1].to = top
	return s
}

func (s *space) at(hash uint64) *partition {
	i, _ := slices.BinarySearchFunc(s.parts, hash, func(p *partition, hash uint64) int {
		if p.to < hash {
			return -1
		}
		return 1
	})
	return s.parts[i]
}

// throttled counts a throttle, and splits the partition if it has been throttled for
// long enough. It does not split a partition if only a single key is throttled,
// because the split would not divide its load.
func (s *space) throttled(a *access, splitAfter time.Duration, now time.Time) {
	load := a.part.load(a.write, now)
	load.Offered += a.units
	load.Throttled++
	lasted, several := a.part.lane(a.write).heat.feel(a.hash, now)
	if splitAfter > 0 && lasted >= splitAfter && several {
		s.split(a.part)
	}
}

// split divides a key range in the middle. Both halves get the tokens or the debt of
// the partition; the split doubles only the future capacity.
func (s *space) split(p *partition) {
	if p.from == p.to {
		return
	}
	p.write.heat, p.read.heat = heat{}, heat{}
	upper := &partition{from: p.from + (p.to-p.from)/2 + 1, to: p.to, write: p.write, read: p.read}
	p.to = upper.from - 1
	s.parts = slices.Insert(s.parts, slices.Index(s.parts, p)+1, upper)
}

func (s *space) report() []Partition {
	out := make([]Partition, len(s.parts))
	for i, p := range s.parts {
		kept := p.seconds[max(0, len(p.seconds)-keptSeconds):]
		out[i] = Partition{Resource: s.resource, From: p.from, To: p.to, Seconds: slices.Clone(kept)}
	}
	return out
}

// access is an item's need for units of a partition.
type access struct {
	space *space
	part  *partition
	hash  uint64
	write bool
	units float64 // set aside before, so that only the rest can become debt
}

// reserve reserves the units of all accesses, or of no access. It returns the
// refused accesses.
func reserve(accesses []access, now time.Time) (refused []*access) {
	for i := range accesses {
		a := &accesses[i]
		if a.part == nil {
			a.part = a.space.at(a.hash)
		}
		if !a.part.lane(a.write).take(a.units, now) {
			refused = append(refused, a)
		}
	}
	for i := range accesses {
		a := &accesses[i]
		switch {
		case len(refused) == 0:
			load := a.part.load(a.write, now)
			load.Offered += a.units
			load.Passed += a.units
		case !slices.Contains(refused, a):
			a.part.lane(a.write).tokens += a.units
		}
	}
	return refused
}

// settle replaces the reserved units by the actual units.
func (a *access) settle(units float64, now time.Time) {
	more := units - a.units
	if more == 0 {
		return
	}
	l := a.part.lane(a.write)
	l.tokens = min(l.depth, l.tokens-more)
	load := a.part.load(a.write, now)
	load.Offered += more
	load.Passed += more
	a.units = units
}
