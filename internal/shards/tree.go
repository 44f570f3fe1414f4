package shards

import (
	"slices"

	"github.com/tidegate/tidegate/internal/table"
	"github.com/tidegate/tidegate/pkg/bucket"
)

// Tree is the shards of one bucket, in the order of their numbers. One that was
// read by [Store.Read] is whole: it has all of them.
type Tree []*table.Bucket

// newTree orders shards.
func newTree(items []*table.Bucket) Tree {
	slices.SortFunc(items, func(a, b *table.Bucket) int { return a.Key.Shard - b.Key.Shard })
	return items
}

// Whole reports whether these are all the shards of a bucket as they were at
// one moment, or none.
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

// Find returns a shard, nil where it is not there.
func (t Tree) Find(shard int) *table.Bucket {
	for _, b := range t {
		if b.Key.Shard == shard {
			return b
		}
	}
	return nil
}

// Wanted is how many shards are wanted; of no bucket, 1.
func (t Tree) Wanted() int {
	if b := t.Find(0); b != nil {
		return max(1, b.Want)
	}
	return 1
}

// Lacks reports whether a shard is wanted that is not there.
func (t Tree) Lacks() bool {
	wanted := t.Wanted()
	return slices.ContainsFunc(t, func(b *table.Bucket) bool { return ChildOf(b).Shard < wanted })
}

// Synced reports whether all shards are of the same settings, those of a
// fingerprint.
func (t Tree) Synced(fingerprint string) bool {
	return !slices.ContainsFunc(t, func(b *table.Bucket) bool { return b.Fingerprint != fingerprint })
}

// Pool is one limit over all shards, which have it under one setting.
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
