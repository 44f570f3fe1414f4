package bucket_test

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/tidegate/tidegate/pkg/bucket"
)

// store is a bucket of one limit as the writers share it, with a log of what was
// admitted. Writers hold copies of its state, which grow old.
type store struct {
	state
	now      bucket.Instant
	rates    []rate
	admitted []flow // by the order of writes
	credited []flow
	writes   int
}

// state is what a writer knows.
type state struct {
	limit   bucket.Limit
	cfg     int  // grows with each change of the settings
	removed bool // the limit was taken away; its count is kept until it is full
	gone    bool // and then was forgotten
	merges  int  // made so far
	shards  []bucket.ShardDrawn
}

func (s state) copy() state {
	s.shards = slices.Clone(s.shards)
	return s
}

func (s state) pool() bucket.Pool { return bucket.Pool{Limit: s.limit, Shards: s.shards} }

// find is the index of a shard at exactly its level, −1 if there is none.
func (s state) find(shard bucket.Shard) int {
	return slices.IndexFunc(s.shards, func(d bucket.ShardDrawn) bool { return d.Shard == shard })
}

// flow is an amount, the moment it is counted at, and which write it was part of.
type flow struct {
	at     bucket.Instant
	write  int
	amount int64
}

// rate is a stretch of time with one setting. Its refill count continues the one
// before, as a sync makes the drawn counts do.
type rate struct {
	from    bucket.Instant
	limit   bucket.Limit
	stopped bool // the limit was forgotten: nothing is refilled
	offset  int64
}

func (r rate) refilled(at bucket.Instant) int64 {
	if r.stopped {
		return r.offset
	}
	return r.limit.Refilled(at) + r.offset
}

func newStore(l bucket.Limit, now bucket.Instant) *store {
	full := l.Window(bucket.Whole(), now).Full()
	return &store{
		state: state{limit: l, shards: []bucket.ShardDrawn{{Shard: bucket.Whole(), Drawn: full}}},
		now:   now,
		rates: []rate{{from: now, limit: l}},
	}
}

// configure ends a stretch of time and begins another.
func (s *store) configure(to bucket.Limit, stopped bool) {
	count := s.rates[len(s.rates)-1].refilled(s.now)
	next := rate{from: s.now, limit: to, stopped: stopped, offset: count}
	if !stopped {
		next.offset -= to.Refilled(s.now)
	}
	s.rates = append(s.rates, next)
	s.limit = to
	s.cfg++
}

// sync writes new settings; a limit that was forgotten starts full.
func (s *store) sync(to bucket.Limit) {
	for i, d := range s.shards {
		if s.gone {
			s.shards[i].Drawn = to.Window(d.Shard, s.now).Full()
		} else {
			s.shards[i].Drawn = bucket.SyncDrawn(s.limit, to, d.Shard, s.now).Apply(d.Drawn)
		}
	}
	s.configure(to, false)
	s.removed, s.gone = false, false
}

// forget drops a removed limit if, by what a writer knows, it is full, and the
// condition of that holds for what the store has.
func (s *store) forget(known state) {
	if !s.removed || s.gone || known.cfg != s.cfg || len(known.shards) != len(s.shards) {
		return
	}
	for _, d := range known.shards {
		i := s.find(d.Shard)
		most, ok := bucket.Removable(known.limit, d.Shard, d.Drawn, s.now)
		if !ok || i < 0 || s.shards[i].Drawn > most {
			return
		}
	}
	s.configure(s.limit, true)
	s.gone = true
}

// bound is how much may be admitted from t0 to t1 by plans that look back by at
// most grace: the capacity, the refill between them, and the credits of writes
// first to last. A limit that was forgotten was full by its last settings and
// comes back full by others: if its capacity had been lowered in between, the
// difference is regained.
func (s *store) bound(t0, t1 bucket.Instant, first, last int, grace int64) int64 {
	var most, capacity, regained, low, high int64
	seen := false
	for i, r := range s.rates {
		over := i+1 < len(s.rates) && s.rates[i+1].from < t0
		if over || r.from > t1 {
			continue
		}
		start := r.refilled(max(t0, r.from) - bucket.Instant(grace))
		if !seen || start < low {
			low = start
		}
		most, high, seen = max(most, r.limit.Capacity), max(high, r.refilled(t1)), true
		capacity = max(capacity, regained+most)
		if r.stopped {
			regained, most = regained+most-r.limit.Capacity, 0
		}
	}
	for _, c := range s.credited {
		if c.write >= first && c.write <= last {
			capacity += c.amount
		}
	}
	return capacity + high - low
}

// requireNeverOver checks every stretch of time that begins and ends with an
// admission.
func (s *store) requireNeverOver(t *rapid.T, grace int64) {
	for _, from := range s.admitted {
		for _, to := range s.admitted {
			var sum int64
			first, last := s.writes, 0
			for _, a := range s.admitted {
				if a.at >= from.at && a.at <= to.at {
					sum += a.amount
					first, last = min(first, a.write), max(last, a.write)
				}
			}
			if sum > 0 {
				require.LessOrEqual(t, sum, s.bound(from.at, to.at, first, last, grace), "from %d to %d", from.at, to.at)
			}
		}
	}
}

// write is a planned write: per shard its change, or what a split or merge does.
type write struct {
	at      bucket.Instant
	cfg     int
	merges  int // that the plan knows of
	parts   []part
	admits  int64
	credits int64
	child   *bucket.ShardDrawn // of a split
	gone    *bucket.Shard      // of a merge
	goneMax int64
	becomes int  // the level of the first part's shard after a split or merge
	prompt  bool // applied at the moment it was planned at, or never
}

type part struct {
	shard  bucket.Shard
	change bucket.Change
}

// apply makes the write if all its conditions hold, and reports whether they did.
// None arrives that was planned by a state from before a merge: merged and split
// again, a shard may have a count that it had before, and a write that was under
// way meanwhile would be right by its range, but late by the time it took.
func (s *store) apply(w write) bool {
	if w.cfg != s.cfg || w.merges != s.merges {
		return false
	}
	for _, p := range w.parts {
		if i := s.find(p.shard); i < 0 || !p.change.Holds(s.shards[i].Drawn) {
			return false
		}
	}
	if w.gone != nil {
		i := s.find(*w.gone)
		if i < 0 || s.shards[i].Drawn > w.goneMax {
			return false
		}
		s.shards = slices.Delete(s.shards, i, i+1)
		s.merges++
	}
	for _, p := range w.parts {
		d := &s.shards[s.find(p.shard)]
		d.Drawn = p.change.Apply(d.Drawn)
		if w.becomes != 0 {
			d.Count = w.becomes
		}
	}
	if w.child != nil {
		s.shards = append(s.shards, *w.child)
	}
	s.writes++
	if w.admits > 0 {
		s.admitted = append(s.admitted, flow{w.at, s.writes, w.admits})
	}
	if w.credits > 0 {
		s.credited = append(s.credited, flow{w.at, s.writes, w.credits})
	}
	return true
}

// history is several writers with old states and writes under way.
type history struct {
	store   *store
	known   []state
	pending []write
	grace   int64
}

// plan lets a writer with an old state plan a write, to arrive some time later.
func (h *history) plan(t *rapid.T) {
	writer := rapid.IntRange(0, len(h.known)-1).Draw(t, "writer")
	known := h.known[writer]
	if known.gone {
		return
	}
	var w write
	var ok bool
	switch kind := rapid.IntRange(0, 9).Draw(t, "write"); {
	case kind > 7:
		w, ok = planSplit(t, known, h.store.now)
	case kind == 7:
		w, ok = planMerge(t, known, h.store.now)
	case known.removed:
	case kind == 6:
		w, ok = planGather(t, known, h.store.now)
	default:
		w, ok = planBatch(t, known, h.store.now, h.grace)
	}
	if !ok {
		return
	}
	w.merges = known.merges
	if rapid.Bool().Draw(t, "at once") {
		h.store.apply(w)
		h.known[writer] = h.store.copy() // the reply brings the truth
	} else {
		h.pending = append(h.pending, w)
	}
}

// configure changes the settings of the limit, takes it away, forgets it or
// brings it back.
func (h *history) configure(t *rapid.T) {
	switch rapid.IntRange(0, 3).Draw(t, "setting") {
	case 0:
		h.store.sync(smallLimit().Draw(t, "limit"))
	case 1:
		h.store.forget(h.store.state)
	default:
		if h.store.removed {
			h.store.forget(rapid.SampledFrom(h.known).Draw(t, "knows"))
			return
		}
		h.store.removed = true
		h.store.cfg++
	}
}

// step does one random thing. The ends of the range are drawn most: writes.
func (h *history) step(t *rapid.T) {
	switch kind := rapid.IntRange(0, 19).Draw(t, "step"); {
	case kind == 13 || (kind == 12 && h.store.removed):
		h.configure(t)
	case kind >= 3 && kind < 7 && len(h.pending) > 0:
		i := rapid.IntRange(0, len(h.pending)-1).Draw(t, "arrives")
		h.store.apply(h.pending[i])
		h.pending = slices.Delete(h.pending, i, i+1)
	case kind >= 7 && kind < 12:
		pause := rapid.Int64Range(0, 2*h.store.limit.FillTime()).Draw(t, "pause")
		h.store.now += bucket.Instant(pause / rapid.Int64Range(1, 30).Draw(t, "of"))
		// A merge that is late by d lets d milliseconds of one shard's overflow
		// reach the other; here merges are not late.
		h.pending = slices.DeleteFunc(h.pending, func(w write) bool { return w.prompt })
	case kind >= 14 && kind < 16:
		h.known[rapid.IntRange(0, len(h.known)-1).Draw(t, "reads")] = h.store.copy()
	default:
		h.plan(t)
	}
}

func runHistory(t *rapid.T, grace int64) *history {
	s := newStore(smallLimit().Draw(t, "limit"), bucket.Instant(rapid.Int64Range(1<<20, 1<<30).Draw(t, "start")))
	h := &history{store: s, grace: grace}
	for range rapid.IntRange(1, 3).Draw(t, "writers") {
		h.known = append(h.known, s.copy())
	}
	for range rapid.IntRange(40, 90).Draw(t, "steps") {
		h.step(t)
	}
	return h
}

// TestNeverOver is the promise of the system in small: whatever several writers
// with old states do to a bucket, in whatever order their writes arrive, while
// its settings and shards change, in no stretch of time is more admitted than
// the capacity, the refill and the credits allow.
func TestNeverOver(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		h := runHistory(t, 0)
		h.store.requireNeverOver(t, 0)
	})
}

// TestNeverOverNear is TestNeverOver for plans by WindowNear, which may admit
// what the grace refills besides.
func TestNeverOverNear(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		grace := rapid.Int64Range(1, 30).Draw(t, "grace")
		h := runHistory(t, grace)
		h.store.requireNeverOver(t, grace)
	})
}

// TestHistoriesAdmitToTheBound guards TestNeverOver against histories that
// happen to admit nothing: draining a bucket meets the bound exactly.
func TestHistoriesAdmitToTheBound(t *testing.T) {
	l := bucket.Limit{Name: "l", Capacity: 10, Refill: 1, Period: 1}
	s := newStore(l, 1000)
	for _, at := range []bucket.Instant{1000, 1004, 1010} {
		s.now = at
		d := s.shards[0]
		tally := bucket.NewTally(l.Window(d.Shard, at), d.Drawn)
		cost := tally.Balance()
		require.True(t, tally.Spend(cost))
		require.True(t, s.apply(write{at: at, admits: cost, parts: []part{{d.Shard, tally.Change()}}}))
	}
	require.Equal(t, []flow{{1000, 1, 10}, {1004, 2, 4}, {1010, 3, 6}}, s.admitted)
	require.EqualValues(t, 20, s.bound(1000, 1010, 1, 3, 0))
}
