package control

import (
	"context"

	"github.com/tidegate/tidegate/internal/shards"
	"github.com/tidegate/tidegate/internal/store"
	"github.com/tidegate/tidegate/internal/table"
	"github.com/tidegate/tidegate/pkg/bucket"
	"github.com/tidegate/tidegate/pkg/keys"
)

// treeReads is the maximum number of reads of a bucket's shards until they are a whole
// tree. Splits and merges are transactions, and a bucket has few of them in a
// minute.
const treeReads = 5

// holding is the stored state of an entity.
type holding struct {
	own      [2]*table.Config // the entity's level for the resource, and its level for all resources; nil if not stored
	shards   shards.Tree      // empty: the bucket was deleted, or all of it is damaged
	damaged  bool             // an item cannot be decoded
	changing bool             // the shards are no whole tree
}

// take adds a shard as it was read.
func (h *holding) take(item table.Item) {
	b, err := table.DecodeBucket(item)
	if err != nil {
		h.damaged = true
		return
	}
	h.shards = append(h.shards, b)
}

// readConfigs reads the levels that can hold for the page's entities.
func (p *capacityPage) readConfigs(ctx context.Context) error {
	wanted := make([]keys.Key, 0, 2+2*len(p.entities))
	wanted = append(wanted,
		keys.ResourceConfig{Namespace: p.ns, Resource: p.resource}.Key(),
		keys.SystemConfig{Namespace: p.ns}.Key())
	for _, entity := range p.entities {
		wanted = append(wanted,
			keys.EntityConfig{Namespace: p.ns, Entity: entity, Resource: p.resource}.Key(),
			keys.EntityConfig{Namespace: p.ns, Entity: entity, Resource: keys.DefaultResource}.Key())
	}
	items, err := store.BatchRead(ctx, p.store.client, p.store.table, wanted)
	if err != nil {
		return err
	}
	for _, item := range items {
		c, err := table.DecodeConfig(item)
		if err == nil {
			p.place(c)
			continue
		}
		key, errKey := table.ItemKey(item)
		own, isOwn := key.(keys.EntityConfig)
		if errKey != nil || !isOwn {
			return err
		}
		p.found[own.Entity].damaged = true
	}
	return nil
}

// place assigns a level to its entity or to the shared levels.
func (p *capacityPage) place(c *table.Config) {
	switch key := c.Key.(type) {
	case keys.EntityConfig:
		level := 0
		if key.Resource == keys.DefaultResource {
			level = 1
		}
		p.found[key.Entity].own[level] = c
	case keys.ResourceConfig:
		p.shared[0] = c
	case keys.SystemConfig:
		p.shared[1] = c
	}
}

// readTrees reads the buckets of which shard 0 alone is not all, until each is
// a whole tree.
func (p *capacityPage) readTrees(ctx context.Context) error {
	for n := range treeReads {
		var wanted []keys.Key
		for _, entity := range p.entities {
			h := p.found[entity]
			if h.damaged || h.shards.Whole() {
				continue
			}
			count := bucket.MaxShards // the shards were read at different moments, so any shard may exist
			if first := h.shards.Find(0); n == 0 && first != nil {
				count = max(first.Want, first.Level)
			}
			for i := range count {
				wanted = append(wanted, p.shard(entity, i))
			}
			h.shards = nil
		}
		if len(wanted) == 0 {
			return nil
		}
		if n > 0 {
			if err := store.Pause(ctx, n); err != nil {
				return err
			}
		}
		if err := p.load(ctx, wanted); err != nil {
			return err
		}
	}
	for _, h := range p.found {
		h.changing = !h.shards.Whole()
	}
	return nil
}

func (p *capacityPage) shard(entity string, i int) keys.Key {
	return keys.Bucket{Namespace: p.ns, Entity: entity, Resource: p.resource, Shard: i}.Key()
}

// load reads shards.
func (p *capacityPage) load(ctx context.Context, wanted []keys.Key) error {
	items, err := store.BatchRead(ctx, p.store.client, p.store.table, wanted)
	if err != nil {
		return err
	}
	for _, item := range items {
		key, err := table.BucketKey(item)
		if err != nil {
			return err
		}
		p.found[key.Entity].take(item)
	}
	return nil
}
