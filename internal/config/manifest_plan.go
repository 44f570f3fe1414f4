package config

import (
	"slices"

	"github.com/tidegate/tidegate/pkg/api"
)

// StepKind tells how a step changes its level.
type StepKind string

// The kinds, each with its mark in output.
const (
	StepCreate   StepKind = "create"    // +  the level has no limits yet
	StepChange   StepKind = "change"    // ~  the manifest manages the level
	StepTakeOver StepKind = "take_over" // !  somebody else set the level's limits
	StepDelete   StepKind = "delete"    // -  the manifest manages the level, and declares it no more
)

// Mark returns the kind as a single character.
func (k StepKind) Mark() string {
	return map[StepKind]string{StepCreate: "+", StepChange: "~", StepTakeOver: "!", StepDelete: "-"}[k]
}

// ManifestStep changes a level.
type ManifestStep struct {
	Kind StepKind `json:"kind"`
	api.LimitsTarget
	// Limits and OnUnavailable are the level's new settings. An empty policy keeps
	// the stored policy, as does a deletion.
	Limits        []api.Limit `json:"limits,omitempty"`
	OnUnavailable api.Policy  `json:"on_unavailable,omitempty"`
	// Stored is the level before the step; nil if nothing is stored.
	Stored *api.LimitsLevel `json:"stored,omitempty"`
}

// Version returns the stored version for which the step is valid; 0 if nothing is
// stored.
func (s *ManifestStep) Version() int64 {
	if s.Stored == nil {
		return 0
	}
	return s.Stored.Version
}

// ManifestPlan holds the steps from the stored levels to the levels of a manifest.
type ManifestPlan struct {
	Manifest  string         `json:"manifest"`
	Namespace string         `json:"namespace"`
	Steps     []ManifestStep `json:"steps"` // in the order of the manifest's levels, deletions last
	Unchanged int            `json:"unchanged"`
}

// Count returns the number of steps of a kind.
func (p *ManifestPlan) Count(kind StepKind) int {
	n := 0
	for i := range p.Steps {
		if p.Steps[i].Kind == kind {
			n++
		}
	}
	return n
}

// Diff returns the plan from the stored levels to the manifest. stored holds the
// levels of the namespace that have limits, and the declared levels that hold only
// a policy.
func (m *Manifest) Diff(stored []api.LimitsLevel) ManifestPlan {
	plan := ManifestPlan{Manifest: m.Name, Namespace: m.Namespace, Steps: []ManifestStep{}}
	byTarget := make(map[api.LimitsTarget]*api.LimitsLevel, len(stored))
	for i := range stored {
		byTarget[stored[i].LimitsTarget] = &stored[i]
	}
	declared := make(map[api.LimitsTarget]bool, len(m.Levels))
	for i := range m.Levels {
		level := &m.Levels[i]
		declared[level.LimitsTarget] = true
		is := byTarget[level.LimitsTarget]
		kind := m.kind(level, is)
		if kind == "" {
			plan.Unchanged++
			continue
		}
		plan.Steps = append(plan.Steps, ManifestStep{
			Kind: kind, LimitsTarget: level.LimitsTarget, Limits: level.Limits, OnUnavailable: level.OnUnavailable, Stored: is,
		})
	}
	first := len(plan.Steps)
	for i := range stored {
		if is := &stored[i]; is.Manifest == m.Name && len(is.Limits) > 0 && !declared[is.LimitsTarget] {
			plan.Steps = append(plan.Steps, ManifestStep{Kind: StepDelete, LimitsTarget: is.LimitsTarget, Stored: is})
		}
	}
	slices.SortFunc(plan.Steps[first:], func(a, b ManifestStep) int { return compareTargets(a.LimitsTarget, b.LimitsTarget) })
	return plan
}

// kind returns the kind of step that a declared level needs; empty if it is
// unchanged.
func (m *Manifest) kind(level *ManifestLevel, is *api.LimitsLevel) StepKind {
	switch {
	case is == nil || len(is.Limits) == 0:
		return StepCreate
	case is.Manifest != m.Name:
		return StepTakeOver
	case !slices.Equal(is.Limits, level.Limits), level.OnUnavailable != "" && level.OnUnavailable != is.OnUnavailable:
		return StepChange
	}
	return ""
}
