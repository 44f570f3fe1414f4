package config

import (
	"context"
	"fmt"

	"github.com/tidegate/tidegate/internal/store"
	"github.com/tidegate/tidegate/internal/table"
	"github.com/tidegate/tidegate/pkg/api"
	"github.com/tidegate/tidegate/pkg/bucket"
	"github.com/tidegate/tidegate/pkg/keys"
)

// Resolved holds the settings that apply to an entity and a resource.
type Resolved struct {
	Limits        []bucket.Limit // by name; never empty, unless the code no_limits came with it
	Level         Level          // whose limits they are
	Permanent     bool           // the entity's own config for the resource won: its bucket item does not expire
	Cascade       bool           // an acquire also spends from Parent; false where there is no entity item
	Parent        string         // entity id; empty for none
	OnUnavailable api.Policy     // of the first level that has one; empty for none
	Stored        []Level        // the levels that have an item, with limits or without
	Fingerprint   string         // of Limits, Cascade, Parent and Permanent
}

// Governs reports whether a limit applies.
func (r *Resolved) Governs(limit string) bool {
	for i := range r.Limits {
		if r.Limits[i].Name == limit {
			return true
		}
	}
	return false
}

// Explanation is a Resolved with the four levels that it came from, the most
// specific first.
type Explanation struct {
	Resolved
	Levels [numLevels]ExplainedLevel
}

// ExplainedLevel is a level of an explanation. If the level is not stored, only its
// target is set.
type ExplainedLevel struct {
	api.LimitsLevel
	Stored bool // the level has an item, with limits or without
	Wins   bool // its limits are those that hold
}

// Resolve returns the settings that apply, by a consistent read of the four config
// items and the entity. If no level has limits, it fails with an *api.Error of the
// code no_limits, and Resolved has the other settings. After any other error the
// settings are not known.
func (s *LimitStore) Resolve(ctx context.Context, ns, entity, resource string) (Resolved, error) {
	x, err := s.Explain(ctx, ns, entity, resource)
	return x.Resolved, err
}

// Explain is Resolve with its reasons.
func (s *LimitStore) Explain(ctx context.Context, ns, entity, resource string) (Explanation, error) {
	configs := keys.ResolveConfigs(ns, entity, resource)
	entityKey := keys.Entity{Namespace: ns, ID: entity}.Key()
	items, err := store.BatchRead(ctx, s.client, s.table, append(configs[:], entityKey))
	if err != nil {
		return Explanation{}, fmt.Errorf("resolve the limits of entity %s for resource %s: %w", entity, resource, err)
	}
	return explain(configs, entityKey, entity, resource, items)
}

// explain decides from the items that were read.
func explain(configs [numLevels]keys.Key, entityKey keys.Key, entity, resource string, items []table.Item) (Explanation, error) {
	f, err := sortConfigs(configs, entityKey, items)
	if err != nil {
		return Explanation{}, fmt.Errorf("resolve the limits of entity %s for resource %s: %w", entity, resource, err)
	}
	x := f.decide(entity, resource)
	if len(x.Limits) == 0 {
		return x, noLimits(entity, resource)
	}
	return x, nil
}

// Resolution holds what Resolve returns.
type Resolution struct {
	Resolved
	Err error // of this resource: no_limits, or table.ErrDamaged
}

// ResolveMany is Resolve for several resources of an entity, by batched reads. The
// resources must be distinct. An item that cannot be decoded fails the resources that
// it can apply to; any other error of the store fails all.
func (s *LimitStore) ResolveMany(ctx context.Context, ns, entity string, resources []string) (map[string]Resolution, error) {
	entityKey := keys.Entity{Namespace: ns, ID: entity}.Key()
	wanted, asked := []keys.Key{entityKey}, map[keys.Key]bool{}
	for _, resource := range resources {
		for _, key := range keys.ResolveConfigs(ns, entity, resource) {
			if !asked[key] {
				asked[key] = true
				wanted = append(wanted, key)
			}
		}
	}
	items, err := store.BatchRead(ctx, s.client, s.table, wanted)
	if err != nil {
		return nil, fmt.Errorf("resolve the limits of entity %s for %d resources: %w", entity, len(resources), err)
	}
	stored := make(map[keys.Key]table.Item, len(items))
	for _, item := range items {
		key, err := table.ItemKey(item)
		if err != nil {
			return nil, fmt.Errorf("resolve the limits of entity %s for %d resources: %w", entity, len(resources), err)
		}
		stored[key.Key()] = item
	}
	found := make(map[string]Resolution, len(resources))
	for _, resource := range resources {
		configs := keys.ResolveConfigs(ns, entity, resource)
		var own []table.Item
		for _, key := range append(configs[:], entityKey) {
			if item, ok := stored[key]; ok {
				own = append(own, item)
			}
		}
		x, err := explain(configs, entityKey, entity, resource, own)
		found[resource] = Resolution{x.Resolved, err}
	}
	return found, nil
}

// storedSettings holds the items that a resolution read; missing items are nil.
type storedSettings struct {
	configs [numLevels]*table.Config
	entity  *table.Entity
}

func sortConfigs(configs [numLevels]keys.Key, entity keys.Key, items []table.Item) (storedSettings, error) {
	var f storedSettings
	for _, item := range items {
		key, err := table.ItemKey(item)
		if err != nil {
			return storedSettings{}, err
		}
		if key.Key() == entity {
			if f.entity, err = table.DecodeEntity(item); err != nil {
				return storedSettings{}, err
			}
			continue
		}
		for level := range configs {
			if configs[level] != key.Key() {
				continue
			}
			if f.configs[level], err = table.DecodeConfig(item); err != nil {
				return storedSettings{}, err
			}
		}
	}
	return f, nil
}

// decide applies the order of the levels.
func (f *storedSettings) decide(entity, resource string) Explanation {
	var x Explanation
	winner := Winner(f.configs)
	for i, c := range f.configs {
		level := Level(i)
		x.Levels[i].LimitsTarget = level.Target(entity, resource)
		if c == nil {
			continue
		}
		wins := c == winner
		x.Levels[i] = ExplainedLevel{LimitsLevel: wireLevel(c), Stored: true, Wins: wins}
		x.Stored = append(x.Stored, level)
		if x.OnUnavailable == "" {
			x.OnUnavailable = c.OnUnavailable
		}
		if wins {
			x.Limits, x.Level = BucketLimits(c.Limits), level
			x.Permanent = level == LevelEntityResource
		}
	}
	if f.entity != nil {
		x.Cascade, x.Parent = f.entity.Cascade, f.entity.Parent
	}
	x.Fingerprint = Fingerprint(&x.Resolved)
	return x
}

// Winner returns the level whose limits apply: the first of the configs, in the
// order of [keys.ResolveConfigs], that has limits. It returns nil if there is no
// such level. Configs that are not stored are nil.
func Winner(configs [numLevels]*table.Config) *table.Config {
	for _, c := range configs {
		if c != nil && len(c.Limits) > 0 {
			return c
		}
	}
	return nil
}

func noLimits(entity, resource string) *api.Error {
	return api.Errorf(api.CodeNoLimits, "",
		"no limits are stored for this entity and resource; looked at: entity %s with resource %s, entity %s for all resources, resource %s, system; "+
			"set one of them, for example: tidegate limits set --resource %s rpm=100/min",
		entity, resource, entity, resource, resource)
}

// BucketLimits converts limits from whole tokens and seconds, and keeps their
// order. The limits passed [api.Limit.Check], so that the conversion cannot
// overflow.
func BucketLimits(limits []api.Limit) []bucket.Limit {
	out := make([]bucket.Limit, len(limits))
	for i, l := range limits {
		out[i] = bucket.Limit{
			Name:     l.Name,
			Capacity: l.Capacity * bucket.Milli,
			Refill:   l.RefillAmount * bucket.Milli,
			Period:   l.RefillPeriodSeconds * 1000,
		}
	}
	return out
}
