package config

import (
	"context"
	"fmt"

	"github.com/tidegate/tidegate/internal/listing"
	"github.com/tidegate/tidegate/internal/table"
	"github.com/tidegate/tidegate/pkg/api"
	"github.com/tidegate/tidegate/pkg/keys"
)

// levelSteps are the parts of a list of the levels that a target asks for.
func levelSteps(ns string, t api.LimitsTarget) []listing.Step {
	switch {
	case t.System || (t.Entity != "" && t.Resource != ""):
		return []listing.Step{{Item: configItem(ns, t)}}
	case t.Entity != "":
		return []listing.Step{{Index: listing.NoIndex, Query: keys.ConfigsOf(ns, t.Entity)}}
	case t.Resource != "":
		return []listing.Step{{Item: configItem(ns, t)}, {Index: listing.ByEntity, Query: keys.EntitiesWithConfig(ns, t.Resource)}}
	}
	steps := []listing.Step{{Item: keys.SystemConfig{Namespace: ns}}}
	for _, kind := range []string{keys.ResourceConfigs, keys.EntityConfigs} {
		for _, pk := range keys.PurgePartitions(ns) {
			steps = append(steps, listing.Step{Index: listing.ByEverything, Query: keys.Query{PK: pk, SKPrefix: kind}})
		}
	}
	return steps
}

// List returns one page of the levels that have limits, as the request asks
// for them. Levels changed while a list is under way may or may not be in it;
// all others are, once. A level stored a moment ago may be missing: indexes
// follow the table.
func (s *LimitStore) List(ctx context.Context, ns string, req api.LimitsListRequest) (api.LimitsListReply, error) {
	if req.LimitsTarget != (api.LimitsTarget{}) {
		if err := req.Check(); err != nil {
			return api.LimitsListReply{}, err
		}
	}
	levels, cursor, err := page(ctx, s.backend, levelSteps(ns, req.LimitsTarget), listing.Request{Cursor: req.Cursor, Limit: req.Limit},
		func(item table.Item) (api.LimitsLevel, int, error) {
			c, err := table.DecodeConfig(item)
			if err != nil || len(c.Limits) == 0 {
				return api.LimitsLevel{}, 0, err
			}
			level := wireLevel(c)
			return level, levelSize(level), nil
		})
	if err != nil {
		return api.LimitsListReply{}, fmt.Errorf("list limits: %w", err)
	}
	return api.LimitsListReply{Levels: levels, Cursor: cursor}, nil
}

// levelSize is about how many bytes a level has on the wire, and at least that. It
// is below [listing.MaxEntry] for the longest names.
func levelSize(l api.LimitsLevel) int {
	const level, limit = 144, 136 // field names, punctuation and the longest numbers
	size := level + len(l.Entity) + len(l.Resource) + len(l.Manifest)
	for i := range l.Limits {
		size += limit + len(l.Limits[i].Name)
	}
	return size
}
