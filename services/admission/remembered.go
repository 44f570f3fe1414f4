package admission

import (
	"math"
	"sync"
	"unsafe"

	"github.com/hashicorp/golang-lru/v2/simplelru"

	"github.com/tidegate/tidegate/internal/config"
	"github.com/tidegate/tidegate/internal/table"
	"github.com/tidegate/tidegate/pkg/bucket"
	"github.com/tidegate/tidegate/pkg/keys"
)

const (
	// memberOverhead is what a remembered shard takes beside its own value: the entry and
	// the map cell of the cache, with its key, and the timer of a writer.
	memberOverhead = 384
	// attributeOverhead is what a decoded name keeps alive beside itself: it is part of an
	// attribute's name, or of an item's key.
	attributeOverhead = 32
)

// remembered holds the shards that were used last, within a bound of bytes. Dropping a
// shard is always safe: the next use reads its state again.
//
// The bytes are estimated from what the shards refer to, from above: settings that several
// buckets share count for each of them. A shard grows after it is added, when its state is
// first read, so it is weighed after each step of its writer.
type remembered struct {
	most int64 // bytes

	mu    sync.Mutex
	bytes int64                                // guarded by mu: of all members
	lru   *simplelru.LRU[keys.Bucket, *member] // guarded by mu
}

// newRemembered returns an empty memory of at most a number of bytes. It keeps the shard
// that was used last even if the shard is larger.
func newRemembered(most int64) (*remembered, error) {
	lru, err := simplelru.NewLRU[keys.Bucket, *member](math.MaxInt, nil) // bounded by bytes
	if err != nil {
		return nil, err
	}
	return &remembered{most: most, lru: lru}, nil
}

// get returns a shard, which create makes if it is not remembered.
func (r *remembered) get(key keys.Bucket, create func() *member) *member {
	r.mu.Lock()
	defer r.mu.Unlock()
	if m, ok := r.lru.Get(key); ok {
		return m
	}
	m := create()
	r.lru.Add(m.writer.key, m)
	r.account(m, m.bytes())
	return m
}

// peek returns a shard without using it, nil if it is not remembered.
func (r *remembered) peek(key keys.Bucket) *member {
	r.mu.Lock()
	defer r.mu.Unlock()
	m, _ := r.lru.Peek(key)
	return m
}

// weigh accounts for the size that a shard has now.
func (r *remembered) weigh(m *member) {
	size := m.bytes()
	if m.weight.Load() == size {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if known, ok := r.lru.Peek(m.writer.key); ok && known == m { // it may be forgotten
		r.account(m, size)
	}
}

// account takes over a shard's size, and drops the shards used least recently until the
// bound holds. r.mu is held.
func (r *remembered) account(m *member, size int64) {
	r.bytes += size - m.weight.Swap(size)
	for r.bytes > r.most && r.lru.Len() > 1 {
		_, gone, _ := r.lru.RemoveOldest()
		r.bytes -= gone.weight.Load()
	}
}

// counts returns the number of shards and their bytes.
func (r *remembered) counts() (shards int, bytes int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.lru.Len(), r.bytes
}

// bytes estimates the memory that a shard takes.
func (m *member) bytes() int64 {
	key := &m.writer.key
	size := memberOverhead + int64(unsafe.Sizeof(*m)) + int64(len(key.Entity)+len(key.Resource))
	size += settingsBytes(m.writer.settings.last())
	if given := m.writer.settings.given.Load(); given != nil {
		size += limitsBytes(*given)
	}
	if seen := m.writer.known.seen.Load(); seen != nil {
		size += int64(unsafe.Sizeof(*seen)) + itemBytes(seen.item)
		if m.state.Load() != nil {
			size += itemBytes(seen.item) // the router may have offered a newer snapshot than the writer's
		}
	}
	return size + m.state.Load().bytes()
}

// bytes estimates the memory that a bucket's state takes, nil none.
func (b *bucketState) bytes() int64 {
	if b == nil {
		return 0
	}
	size := int64(unsafe.Sizeof(*b))
	if whole := b.whole.Load(); whole != nil {
		size += int64(unsafe.Sizeof(*whole))
		for _, item := range whole.tree {
			size += 8 + itemBytes(item)
		}
	}
	if samples := b.costs.Load(); samples != nil {
		size += int64(unsafe.Sizeof(*samples)) + settingsBytes(samples.of) + int64(len(samples.tokens))*(keptCosts*8+24)
	}
	return size
}

// itemBytes estimates the memory that an item takes, nil none.
func itemBytes(item *table.Bucket) int64 {
	if item == nil {
		return 0
	}
	size := int64(unsafe.Sizeof(*item)) + 3*attributeOverhead +
		2*int64(len(item.Key.Entity)+len(item.Key.Resource)+len(item.Key.Namespace)) + int64(len(item.Fingerprint)+len(item.Parent)+len(item.LastWrite))
	for i := range item.Limits {
		size += int64(unsafe.Sizeof(item.Limits[i])) + attributeOverhead + int64(len(item.Limits[i].Name))
	}
	return size
}

// settingsBytes estimates the memory that settings take, nil none.
func settingsBytes(s *config.Resolved) int64 {
	if s == nil {
		return 0
	}
	return int64(unsafe.Sizeof(*s)) + limitsBytes(s.Limits) + int64(8*len(s.Stored)+len(s.Parent)+len(s.Fingerprint)+len(s.OnUnavailable)) + attributeOverhead
}

func limitsBytes(limits []bucket.Limit) (size int64) {
	for i := range limits {
		size += int64(unsafe.Sizeof(limits[i])) + attributeOverhead + int64(len(limits[i].Name))
	}
	return size
}
