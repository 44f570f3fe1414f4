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

// book is what is known of buckets, by the key of their shard 0. It is safe for
// concurrent use.
type book struct {
	mu      sync.Mutex
	whole   *simplelru.LRU[keys.Bucket, *entry] // guarded by mu: those of one shard
	divided *simplelru.LRU[keys.Bucket, *entry] // guarded by mu: those of several, or that shall have them; quiet ones are not forgotten for busy whole ones
	touched map[keys.Bucket]struct{}            // guarded by mu: those with news since the last look
}

func newBook(remember int) (*book, error) {
	b := &book{touched: map[keys.Bucket]struct{}{}}
	forget := func(key keys.Bucket, _ *entry) { delete(b.touched, key) }
	var err error
	if b.whole, err = simplelru.NewLRU(remember, forget); err != nil {
		return nil, err
	}
	b.divided, err = simplelru.NewLRU(remember, forget)
	return b, err
}

// peek is what is known of a bucket; b.mu is held.
func (b *book) peek(key keys.Bucket) (*entry, bool) {
	if e, ok := b.divided.Peek(key); ok {
		return e, true
	}
	return b.whole.Peek(key)
}

// bucketOf is the key by which the book knows a shard's bucket.
func bucketOf(key keys.Bucket) keys.Bucket {
	key.Shard = 0
	return key
}

// note takes a record of the feed in. One that comes again changes nothing.
func (b *book) note(r feed.Record) {
	key, isBucket := r.Key.(keys.Bucket)
	if !isBucket || r.Bucket == nil || key.Shard >= bucket.MaxShards {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	first := bucketOf(key)
	e := b.find(first, r.AtMs)
	if e.take(key.Shard, r.Bucket, r.Position.String(), r.AtMs) {
		b.file(first, e)
	}
}

// find is the entry of a bucket, made if need be; b.mu is held.
func (b *book) find(key keys.Bucket, at int64) *entry {
	if e, ok := b.divided.Get(key); ok {
		return e
	}
	if e, ok := b.whole.Get(key); ok {
		return e
	}
	e := &entry{}
	e.notObserved(counts, at)
	b.whole.Add(key, e)
	return e
}

// file puts an entry where it is looked for; b.mu is held.
func (b *book) file(key keys.Bucket, e *entry) {
	from, to := b.divided, b.whole
	if e.divided() {
		from, to = to, from
	}
	from.Remove(key)
	to.Add(key, e)
	b.touched[key] = struct{}{}
}

// report takes what an admission node says in, of buckets that the feed tells of too:
// those that the reader has to see to.
func (b *book) report(r *events.LoadReport) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, l := range r.Loads {
		key := bucketOf(l.Key)
		e, ok := b.peek(key)
		if !ok {
			continue
		}
		if len(l.Costs) > 0 {
			if r.ToMs >= e.costsAt+events.LoadEvery { // of another second: what was is over
				e.costs = nil
			}
			e.costs, e.costsAt = dearest(e.costs, l.Costs), max(e.costsAt, r.ToMs)
		}
		e.count(r.ToMs, l.FailedUnits)
		b.touched[key] = struct{}{}
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

// read takes a bucket in that was read, whole, and the settings that apply to it. What
// its shards have cost is known to the feed or will be; only of a bucket that the feed
// told nothing of it is news.
func (b *book) read(key keys.Bucket, tree shards.Tree, of settings, at int64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(tree) == 0 {
		b.whole.Remove(key)
		b.divided.Remove(key)
		return
	}
	e := b.find(key, at)
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
	b.file(key, e)
}

// merges reports whether a merge into so few shards is still planned, by what is known
// now.
func (b *book) merges(key keys.Bucket, to int, now int64) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	e, ok := b.peek(key)
	if !ok {
		return false
	}
	v := e.view(now)
	s := plan(&v, now)
	return s.kind == merge && s.to <= to
}

// knows reports whether a bucket is known to be divided.
func (b *book) knows(key keys.Bucket) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.divided.Contains(key)
}

// errand is a step of a bucket that is to be made.
type errand struct {
	key keys.Bucket
	step
}

// due are the steps to make now, of the buckets that are this process's: at most so
// many doublings, because partitions are about to be throttled, and so many others
// where that leaves room. They are under way from now on, until done says how they
// ended; what there is no room for is due again.
func (b *book) due(now int64, mine func(keys.Bucket) bool, doublings, others int) []errand {
	b.mu.Lock()
	defer b.mu.Unlock()
	all := b.touched
	b.touched = map[keys.Bucket]struct{}{}
	for _, key := range b.divided.Keys() {
		all[key] = struct{}{}
	}
	var urgent, rest []errand
	for key := range all {
		e, ok := b.peek(key)
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
			urgent = append(urgent, errand{key, s})
		case spread, merge:
			rest = append(rest, errand{key, s})
		}
	}
	urgent, rest = b.begin(urgent, doublings), b.begin(rest, min(others, doublings-min(doublings, len(urgent))))
	return append(urgent, rest...)
}

// begin notes that the first so many steps are under way, and the others due again;
// b.mu is held.
func (b *book) begin(list []errand, most int) []errand {
	for i, it := range list {
		if i >= most {
			b.touched[it.key] = struct{}{}
		} else if e, ok := b.peek(it.key); ok {
			e.busy = true
		}
	}
	return list[:min(len(list), max(0, most))]
}

// done says that a step has ended: made, or to be tried again after a pause.
func (b *book) done(key keys.Bucket, made bool, now int64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	e, ok := b.peek(key)
	if !ok {
		return
	}
	e.busy = false
	b.touched[key] = struct{}{}
	if made {
		e.failures, e.notBefore, e.changed = 0, 0, max(e.changed, now)
		return
	}
	e.failures = min(e.failures+1, 6)
	e.notBefore = now + 500<<e.failures // 1 s, 2 s, … 32 s
}

// unseen is how many write units a bucket has cost that the feed has not told of,
// and since when. The feed may be behind, or have lost a record.
func (b *book) unseen(key keys.Bucket, tree shards.Tree) (units, since int64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	e, ok := b.peek(key)
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
func (b *book) catchUp(key keys.Bucket, load, at int64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if e, ok := b.peek(key); ok {
		e.crowd(load, at)
	}
}

// sizes are how many buckets are known, and how many of them are divided.
func (b *book) sizes() (all, divided int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.whole.Len() + b.divided.Len(), b.divided.Len()
}

// shards are how many shards the divided buckets have, and how many of these buckets
// are to have as many as there can be.
func (b *book) shards() (all, full int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, e := range b.divided.Values() {
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
