package relay

import (
	"sync"

	"github.com/tidegate/tidegate/pkg/events"
)

// shares are the parts of the feed's maximum size that the kinds other than buckets
// may take, in 24ths. Buckets have the rest.
func shares() map[events.Kind]int64 {
	return map[events.Kind]int64{events.KindAudit: 3, events.KindConfig: 1, events.KindEntity: 1, events.KindNamespace: 1}
}

// boundOf returns how many bytes a kind may take of a feed of a maximum size.
// Buckets stop where the others would no longer have their shares.
func boundOf(kind events.Kind, most int64) int64 {
	if kind != events.KindBucket {
		return most / 24 * shares()[kind]
	}
	rest := most
	for other := range shares() {
		rest -= boundOf(other, most)
	}
	return rest
}

// room is how much of the feed is taken, as far as a relay knows. It is safe for
// concurrent use.
type room struct {
	mu    sync.Mutex
	taken int64 // bytes, as NATS told last and published since; guarded by mu
	most  int64 // the feed's maximum size, 0 while unknown; guarded by mu
}

// told records the size that NATS reports.
func (r *room) told(taken, most int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.taken, r.most = taken, most
}

// took records the bytes that the relay has published. It reports whether the feed is half
// full by them, and was not before.
func (r *room) took(bytes int64) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	before := r.taken
	r.taken += bytes
	return r.most > 0 && before < r.most/2 && r.taken >= r.most/2
}

// refused records that NATS had no room for a batch.
func (r *room) refused() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.taken = r.most
}

// forBuckets reports whether buckets may be published: the feed keeps a reserve for
// the other kinds: their followers must not wait for the followers of buckets.
func (r *room) forBuckets() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.most <= 0 || r.taken < boundOf(events.KindBucket, r.most)
}

// isFull reports whether hardly anything more may be published.
func (r *room) isFull() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.most > 0 && r.taken >= r.most-r.most/24
}

// isHalfFull reports whether the feed is purged more often.
func (r *room) isHalfFull() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.most > 0 && r.taken >= r.most/2
}
