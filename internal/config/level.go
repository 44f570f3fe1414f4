package config

import (
	"strconv"

	"github.com/tidegate/tidegate/pkg/api"
	"github.com/tidegate/tidegate/pkg/keys"
)

// Level is a config level. A lower number wins.
type Level uint8

// The levels, in the order in which they win.
const (
	LevelEntityResource Level = iota // an entity's for one resource
	LevelEntity                      // an entity's for all its other resources
	LevelResource                    // a resource's
	LevelSystem                      // the namespace's
	numLevels
)

// levels describes each level, in the order of [keys.ResolveConfigs].
func levels() [numLevels]levelFacts {
	return [numLevels]levelFacts{
		LevelEntityResource: {"entity_resource", func(entity, resource string) api.LimitsTarget {
			return api.LimitsTarget{Entity: entity, Resource: resource}
		}},
		LevelEntity:   {"entity", func(entity, _ string) api.LimitsTarget { return api.LimitsTarget{Entity: entity} }},
		LevelResource: {"resource", func(_, resource string) api.LimitsTarget { return api.LimitsTarget{Resource: resource} }},
		LevelSystem:   {"system", func(string, string) api.LimitsTarget { return api.LimitsTarget{System: true} }},
	}
}

type levelFacts struct {
	name   string
	target func(entity, resource string) api.LimitsTarget
}

// String returns the level's name in logs and output.
func (l Level) String() string {
	if l < numLevels {
		return levels()[l].name
	}
	return "level " + strconv.Itoa(int(l))
}

// Target returns the target of the level for an entity and a resource.
func (l Level) Target(entity, resource string) api.LimitsTarget {
	return levels()[l].target(entity, resource)
}

// configItem returns the config item of a target that passed its Check.
func configItem(ns string, t api.LimitsTarget) keys.Item {
	switch {
	case t.Entity != "" && t.Resource != "":
		return keys.EntityConfig{Namespace: ns, Entity: t.Entity, Resource: t.Resource}
	case t.Entity != "":
		return keys.EntityConfig{Namespace: ns, Entity: t.Entity, Resource: keys.DefaultResource}
	case t.Resource != "":
		return keys.ResourceConfig{Namespace: ns, Resource: t.Resource}
	}
	return keys.SystemConfig{Namespace: ns}
}

// configTarget is the inverse of configItem.
func configTarget(item keys.Item) api.LimitsTarget {
	switch c := item.(type) {
	case keys.EntityConfig:
		if c.Resource == keys.DefaultResource {
			return api.LimitsTarget{Entity: c.Entity}
		}
		return api.LimitsTarget{Entity: c.Entity, Resource: c.Resource}
	case keys.ResourceConfig:
		return api.LimitsTarget{Resource: c.Resource}
	}
	return api.LimitsTarget{System: true}
}

// TargetName names a config level in output and messages.
func TargetName(t api.LimitsTarget) string {
	switch {
	case t.System:
		return "system"
	case t.Resource == "":
		return "entity " + t.Entity
	case t.Entity == "":
		return "resource " + t.Resource
	}
	return "entity " + t.Entity + " on " + t.Resource
}

// targetText is TargetName within a sentence.
func targetText(t api.LimitsTarget) string {
	if t.Entity == "" && t.Resource == "" {
		return "the system"
	}
	return TargetName(t)
}
