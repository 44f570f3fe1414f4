package shards

import (
	"slices"

	"github.com/tidegate/tidegate/internal/table"
	"github.com/tidegate/tidegate/pkg/bucket"
)

// Tree holds the shards of a bucket, ordered by number. The trees of [Store.Read]
// are whole.
type Tree []*table.Bucket

// newTree sorts shards by number.
func newTree(items []*table.Bucket) Tree {
	slices.SortFunc(items, func(a, b *table.Bucket) int { return a.Key.Shard - b.Key.Shard })
	return items
}

// Whole reports whether the shards are all shards of a bucket as they were at a
// single moment. An empty tree is whole.
func (t Tree) Whole() bool {
	if len(t) == 0 {
		return true
	}
	var p bucket.Pool
	for _, b := range t {
		p.Shards = append(p.Shards, bucket.ShardDrawn{Shard: b.Shard()})
	}
	return p.Complete()
}

// Find returns a shard, or nil if it is missing.
func (t Tree) Find(shard int) *table.Bucket {
	for _, b := range t {
		if b.Key.Shard == shard {
			return b
		}
	}
	return nil
}

// Wanted returns the wanted number of shards; 1 if there is no bucket.
func (t Tree) Wanted() int {
	if b := t.Find(0); b != nil {
		return max(1, b.Want)
	}
	return 1
}

// Lacks reports whether a wanted shard is missing.
func (t Tree) Lacks() bool {
	wanted := t.Wanted()
	return slices.ContainsFunc(t, func(b *table.Bucket) bool { return ChildOf(b).Shard < wanted })
}

// Synced reports whether all shards have the settings of a fingerprint.
func (t Tree) Synced(fingerprint string) bool {
	return !slices.ContainsFunc(t, func(b *table.Bucket) bool { return b.Fingerprint != fingerprint })
}

// Pool returns a limit over all shards, which must have the same settings of it.
func (t Tree) Pool(limit string) bucket.Pool {
	p := bucket.Pool{Shards: make([]bucket.ShardDrawn, 0, len(t))}
	for _, b := range t {
		if l := b.Find(limit); l != nil {
			p.Limit = l.Limit
			p.Shards = append(p.Shards, bucket.ShardDrawn{Shard: b.Shard(), Drawn: l.Drawn})
		}
	}
	return p
}
