package config

import (
	"context"
	"fmt"

	"github.com/tidegate/tidegate/internal/store"
	"github.com/tidegate/tidegate/internal/table"
	"github.com/tidegate/tidegate/pkg/api"
	"github.com/tidegate/tidegate/pkg/keys"
)

// levelSteps returns the steps of a list of the levels that a target selects.
func levelSteps(ns string, t api.LimitsTarget) []store.Step {
	switch {
	case t.System || (t.Entity != "" && t.Resource != ""):
		return []store.Step{{Item: configItem(ns, t)}}
	case t.Entity != "":
		return []store.Step{{Index: store.NoIndex, Query: keys.ConfigsOf(ns, t.Entity)}}
	case t.Resource != "":
		return []store.Step{{Item: configItem(ns, t)}, {Index: store.ByEntity, Query: keys.EntitiesWithConfig(ns, t.Resource)}}
	}
	steps := []store.Step{{Item: keys.SystemConfig{Namespace: ns}}}
	for _, kind := range []string{keys.ResourceConfigs, keys.EntityConfigs} {
		for _, pk := range keys.PurgePartitions(ns) {
			steps = append(steps, store.Step{Index: store.ByEverything, Query: keys.Query{PK: pk, SKPrefix: kind}})
		}
	}
	return steps
}

// List returns a page of the levels that have limits and that the request selects.
// A level that changes during the list may be listed or not; every other level is
// listed once. A new level may be missing: indexes follow the table.
func (s *LimitStore) List(ctx context.Context, ns string, req api.LimitsListRequest) (api.LimitsListReply, error) {
	if req.LimitsTarget != (api.LimitsTarget{}) {
		if err := req.Check(); err != nil {
			return api.LimitsListReply{}, err
		}
	}
	levels, cursor, err := page(ctx, s.backend, levelSteps(ns, req.LimitsTarget), store.PageRequest{Cursor: req.Cursor, Limit: req.Limit},
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

// levelSize returns an upper bound, close to the real size, of a level's bytes on
// the wire. Even with the longest names it is far below the size of a page.
func levelSize(l api.LimitsLevel) int {
	const level, limit = 144, 136 // field names, punctuation and the longest numbers
	size := level + len(l.Entity) + len(l.Resource) + len(l.Manifest)
	for i := range l.Limits {
		size += limit + len(l.Limits[i].Name)
	}
	return size
}
