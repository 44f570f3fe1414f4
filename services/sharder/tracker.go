package sharder

import (
	"maps"
	"sync"

	"github.com/hashicorp/golang-lru/v2/simplelru"

	"github.com/tidegate/tidegate/internal/feed"
	"github.com/tidegate/tidegate/internal/shards"
	"github.com/tidegate/tidegate/pkg/bucket"
	"github.com/tidegate/tidegate/pkg/events"
	"github.com/tidegate/tidegate/pkg/keys"
)

// tracker tracks the state of buckets, by the key of their shard 0. It is safe for
// concurrent use.
type tracker struct {
	mu      sync.Mutex
	whole   *simplelru.LRU[keys.Bucket, *entry] // guarded by mu: buckets of a single shard
	divided *simplelru.LRU[keys.Bucket, *entry] // guarded by mu: buckets of several shards, or that shall have them; quiet buckets are not forgotten for busy whole buckets
	touched map[keys.Bucket]struct{}            // guarded by mu: buckets with changes since the last look
}

func newTracker(remember int) (*tracker, error) {
	t := &tracker{touched: map[keys.Bucket]struct{}{}}
	forget := func(key keys.Bucket, _ *entry) { delete(t.touched, key) }
	var err error
	if t.whole, err = simplelru.NewLRU(remember, forget); err != nil {
		return nil, err
	}
	t.divided, err = simplelru.NewLRU(remember, forget)
	return t, err
}

// peek returns the entry of a bucket; t.mu is held.
func (t *tracker) peek(key keys.Bucket) (*entry, bool) {
	if e, ok := t.divided.Peek(key); ok {
		return e, true
	}
	return t.whole.Peek(key)
}

// bucketOf is the key by which the tracker knows a shard's bucket.
func bucketOf(key keys.Bucket) keys.Bucket {
	key.Shard = 0
	return key
}

// note takes a record of the feed in. A record that comes again changes nothing.
func (t *tracker) note(r feed.Record) {
	key, isBucket := r.Key.(keys.Bucket)
	if !isBucket || r.Bucket == nil || key.Shard >= bucket.MaxShards {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	first := bucketOf(key)
	e := t.find(first, r.AtMs)
	if e.take(key.Shard, r.Bucket, r.Position.String(), r.AtMs) {
		t.file(first, e)
	}
}

// find is the entry of a bucket, made if need be; t.mu is held.
func (t *tracker) find(key keys.Bucket, at int64) *entry {
	if e, ok := t.divided.Get(key); ok {
		return e
	}
	if e, ok := t.whole.Get(key); ok {
		return e
	}
	e := &entry{}
	e.notObserved(counts, at)
	t.whole.Add(key, e)
	return e
}

// file puts an entry where it is looked for; t.mu is held.
func (t *tracker) file(key keys.Bucket, e *entry) {
	from, to := t.divided, t.whole
	if e.divided() {
		from, to = to, from
	}
	from.Remove(key)
	to.Add(key, e)
	t.touched[key] = struct{}{}
}

// report takes an admission node's report in, of buckets that the feed tells of too:
// the buckets that the reader has to see to.
func (t *tracker) report(r *events.LoadReport) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, l := range r.Loads {
		key := bucketOf(l.Key)
		e, ok := t.peek(key)
		if !ok {
			continue
		}
		if len(l.Costs) > 0 {
			if r.ToMs >= e.costsAt+events.LoadEvery { // of another second: the old costs are over
				e.costs = nil
			}
			e.costs, e.costsAt = dearest(e.costs, l.Costs), max(e.costsAt, r.ToMs)
		}
		e.count(r.ToMs, l.FailedUnits)
		t.touched[key] = struct{}{}
	}
}

// dearest is by limit the more of two costs: nodes report each for itself.
func dearest(a, b map[string]int64) map[string]int64 {
	all := maps.Clone(a)
	if all == nil {
		all = make(map[string]int64, len(b))
	}
	for limit, tokens := range b {
		all[limit] = max(all[limit], tokens)
	}
	return all
}

// settings are limits and their fingerprint.
type settings struct {
	print  string
	limits []bucket.Limit
}

// read takes a bucket in that was read, whole, and the settings that apply to it. The
// feed reports the cost of its shards, now or later; read counts it only for a bucket that
// the feed has not reported yet.
func (t *tracker) read(key keys.Bucket, tree shards.Tree, of settings, at int64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(tree) == 0 {
		t.whole.Remove(key)
		t.divided.Remove(key)
		return
	}
	e := t.find(key, at)
	for i := range e.shards {
		e.shards[i].level = 0
	}
	for _, item := range tree {
		s := e.shard(item.Key.Shard)
		s.level, s.print = item.Level, item.Fingerprint
		if s.at == "" {
			s.units, e.seen = item.WriteUnits, max(e.seen, at)
		}
	}
	if e.wanted != tree.Wanted() {
		e.changed = max(e.changed, at)
		e.want(tree.Wanted(), at)
	}
	e.print, e.limits = of.print, of.limits
	t.file(key, e)
}

// merges reports whether a merge into so few shards is still planned, by the present
// state.
func (t *tracker) merges(key keys.Bucket, to int, now int64) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	e, ok := t.peek(key)
	if !ok {
		return false
	}
	v := e.view(now)
	s := plan(&v, now)
	return s.kind == merge && s.to <= to
}

// knows reports whether a bucket is known to be divided.
func (t *tracker) knows(key keys.Bucket) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.divided.Contains(key)
}

// task is a step of a bucket that is to be made.
type task struct {
	key keys.Bucket
	step
}

// due are the steps to make now, of the buckets that are this process's: at most so
// many doublings, because partitions are about to be throttled, and so many others
// where that leaves room. They are under way from now on, until done says how they
// ended; steps without room are due again.
func (t *tracker) due(now int64, mine func(keys.Bucket) bool, doublings, others int) []task {
	t.mu.Lock()
	defer t.mu.Unlock()
	all := t.touched
	t.touched = map[keys.Bucket]struct{}{}
	for _, key := range t.divided.Keys() {
		all[key] = struct{}{}
	}
	var urgent, rest []task
	for key := range all {
		e, ok := t.peek(key)
		switch {
		case !ok || e.busy:
			continue
		case !mine(key):
			e.notObserved(counts, now) // the feed of it is another's
			continue
		}
		v := e.view(now)
		if now < e.notBefore {
			continue
		}
		switch s := plan(&v, now); s.kind {
		case stay:
		case double:
			urgent = append(urgent, task{key, s})
		case spread, merge:
			rest = append(rest, task{key, s})
		}
	}
	urgent, rest = t.begin(urgent, doublings), t.begin(rest, min(others, doublings-min(doublings, len(urgent))))
	return append(urgent, rest...)
}

// begin notes that the first so many steps are under way, and the others due again;
// t.mu is held.
func (t *tracker) begin(list []task, most int) []task {
	for i, it := range list {
		if i >= most {
			t.touched[it.key] = struct{}{}
		} else if e, ok := t.peek(it.key); ok {
			e.busy = true
		}
	}
	return list[:min(len(list), max(0, most))]
}

// done says that a step has ended: made, or to be tried again after a pause.
func (t *tracker) done(key keys.Bucket, made bool, now int64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	e, ok := t.peek(key)
	if !ok {
		return
	}
	e.busy = false
	t.touched[key] = struct{}{}
	if made {
		e.failures, e.notBefore, e.changed = 0, 0, max(e.changed, now)
		return
	}
	e.failures = min(e.failures+1, 6)
	e.notBefore = now + 500<<e.failures // 1 s, 2 s, … 32 s
}

// unseen is how many write units a bucket has cost that the feed has not told of,
// and since when. The feed may be behind, or have lost a record.
func (t *tracker) unseen(key keys.Bucket, tree shards.Tree) (units, since int64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	e, ok := t.peek(key)
	if !ok {
		return 0, 0
	}
	for _, item := range tree {
		units += max(0, item.WriteUnits-e.shard(item.Key.Shard).units)
	}
	return units, e.seen
}

// catchUp notes that a bucket was found to have had a load that the feed did not
// tell of.
func (t *tracker) catchUp(key keys.Bucket, load, at int64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if e, ok := t.peek(key); ok {
		e.crowd(load, at)
	}
}

// sizes are how many buckets are known, and how many of them are divided.
func (t *tracker) sizes() (all, divided int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.whole.Len() + t.divided.Len(), t.divided.Len()
}

// shards are how many shards the divided buckets have, and how many of these buckets
// are to have as many as there can be.
func (t *tracker) shards() (all, full int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, e := range t.divided.Values() {
		for _, s := range e.shards {
			if s.level > 0 {
				all++
			}
		}
		if e.wanted >= bucket.MaxShards {
			full++
		}
	}
	return all, full
}
