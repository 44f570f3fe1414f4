package config

import (
	"context"
	"fmt"

	"github.com/tidegate/tidegate/internal/table"
	"github.com/tidegate/tidegate/pkg/api"
	"github.com/tidegate/tidegate/pkg/bucket"
	"github.com/tidegate/tidegate/pkg/keys"
)

// Resolved is what holds for an entity and a resource.
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

// Governs reports whether a limit is one of those that hold.
func (r *Resolved) Governs(limit string) bool {
	for i := range r.Limits {
		if r.Limits[i].Name == limit {
			return true
		}
	}
	return false
}

// Explanation is a Resolved and the four levels it came from, in the order in
// which they win.
type Explanation struct {
	Resolved
	Levels [numLevels]ExplainedLevel
}

// ExplainedLevel is one level as it was looked at. Of a level that is not stored,
// only the target is set.
type ExplainedLevel struct {
	api.LimitsLevel
	Stored bool // the level has an item, with limits or without
	Wins   bool // its limits are those that hold
}

// Resolve finds out what holds, by one consistent read of the four config items
// and the entity. Where no level has limits it fails with an *api.Error of the
// code no_limits, and Resolved tells the rest. Every other error means that it
// is not known what holds.
func (s *LimitStore) Resolve(ctx context.Context, ns, entity, resource string) (Resolved, error) {
	x, err := s.Explain(ctx, ns, entity, resource)
	return x.Resolved, err
}

// Explain is Resolve with the reasons.
func (s *LimitStore) Explain(ctx context.Context, ns, entity, resource string) (Explanation, error) {
	configs := keys.ResolveConfigs(ns, entity, resource)
	entityKey := keys.Entity{Namespace: ns, ID: entity}.Key()
	items, err := table.BatchRead(ctx, s.client, s.table, append(configs[:], entityKey))
	if err != nil {
		return Explanation{}, fmt.Errorf("resolve the limits of entity %s for resource %s: %w", entity, resource, err)
	}
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

// found is what a resolution read; nil for what is not there.
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

// Winner is the level whose limits hold: the first of the configs, in the order
// of [keys.ResolveConfigs], that has limits; nil for none. Configs that are not
// stored are nil.
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

// BucketLimits converts limits from whole tokens and seconds. They are within the
// bounds of [api.Limit.Check], so that nothing overflows, and stay in order.
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
