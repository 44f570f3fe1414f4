package control

import (
	"context"
	"errors"

	"github.com/tidegate/tidegate/internal/shards"
	"github.com/tidegate/tidegate/internal/store"
	"github.com/tidegate/tidegate/internal/table"
	"github.com/tidegate/tidegate/pkg/keys"
)

// holding is the stored state of an entity.
type holding struct {
	own      [2]*table.Config // the entity's level for the resource, and its level for all resources; nil if not stored
	shards   shards.Tree      // empty: the bucket was deleted, or all of it is damaged
	damaged  bool             // an item cannot be decoded
	changing bool             // the shards are no whole tree
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

// readTrees reads the buckets whole.
func (p *capacityPage) readTrees(ctx context.Context) error {
	wanted := make([]keys.Bucket, len(p.entities))
	for i, entity := range p.entities {
		wanted[i] = p.bucket(entity)
	}
	found, err := shards.ReadMany(ctx, p.store.client, p.store.table, wanted, p.firsts)
	if err != nil {
		return err
	}
	for entity, h := range p.found {
		f := found[p.bucket(entity)]
		h.shards = f.Shards
		h.changing = errors.Is(f.Err, shards.ErrUnsettled)
		h.damaged = h.damaged || errors.Is(f.Err, table.ErrDamaged)
	}
	return nil
}

func (p *capacityPage) bucket(entity string) keys.Bucket {
	return keys.Bucket{Namespace: p.ns, Entity: entity, Resource: p.resource}
}
