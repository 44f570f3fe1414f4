package config_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/tidegate/tidegate/internal/config"
	"github.com/tidegate/tidegate/pkg/api"
)

// stored is a level as another change left it.
func stored(t *testing.T, target api.LimitsTarget, by string, version int64, texts ...string) api.LimitsLevel {
	return api.LimitsLevel{LimitsTarget: target, Manifest: by, Version: version, Limits: parsedLimits(t, texts...)}
}

func TestEachKindOfStep(t *testing.T) {
	m, problems := config.ParseManifest("good.yaml", read(t, "manifest_good.yaml"))
	require.Empty(t, problems)
	system := stored(t, api.LimitsTarget{System: true}, "gateway", 4, "rpm=100/min")
	system.OnUnavailable = api.PolicyAllow
	policyAlone := stored(t, api.LimitsTarget{Entity: "api-key-123", Resource: "gpt-4"}, "", 2)
	policyAlone.OnUnavailable = api.PolicyAllow
	plan := m.Diff([]api.LimitsLevel{
		system, // as declared
		stored(t, api.LimitsTarget{Resource: "gpt-4"}, "gateway", 7, "rpm=50/min"),                  // managed, and differs
		stored(t, api.LimitsTarget{Resource: "gpt-4o/mini"}, "", 1, "slow=1/30s"),                   // set by hand, though the same
		stored(t, api.LimitsTarget{Entity: "api-key-123"}, "other", 3, "rpm=1/min"),                 // another manifest's
		stored(t, api.LimitsTarget{Resource: "old"}, "gateway", 5, "rpm=1/min"),                     // managed, declared no more
		stored(t, api.LimitsTarget{Entity: "old", Resource: "gpt-4"}, "gateway", 6, "rpm=1/min"),    // the same
		stored(t, api.LimitsTarget{Resource: "by-hand"}, "", 5, "rpm=1/min"),                        // nobody's business
		stored(t, api.LimitsTarget{Entity: "e", Resource: "of-the-other"}, "other", 5, "rpm=1/min"), // the same
		policyAlone, // no limits: nothing to take over
	})
	var lines []string
	for _, s := range plan.Steps {
		lines = append(lines, fmt.Sprintf("%s %s v%d", s.Kind.Mark(), config.TargetName(s.LimitsTarget), s.Version()))
	}
	require.Equal(t, []string{
		"~ resource gpt-4 v7",
		"! resource gpt-4o/mini v1",
		"+ entity 12345 on gpt-4 v0",
		"! entity api-key-123 v3",
		"+ entity api-key-123 on gpt-4 v2",
		"- resource old v5",
		"- entity old on gpt-4 v6",
	}, lines)
	require.Equal(t, 1, plan.Unchanged)
	for kind, n := range map[config.StepKind]int{config.StepCreate: 2, config.StepChange: 1, config.StepTakeOver: 2, config.StepDelete: 2} {
		require.Equal(t, n, plan.Count(kind), kind)
	}
}

func TestAPolicyIsDeclaredOrLeftAlone(t *testing.T) {
	const text = head + "limits: {system: {rpm: 1/s}}\n"
	for name, c := range map[string]struct {
		declared string
		is       api.Policy
		steps    int
	}{
		"the same":     {"on_unavailable: {system: allow}", api.PolicyAllow, 0},
		"another":      {"on_unavailable: {system: allow}", api.PolicyBlock, 1},
		"none yet":     {"on_unavailable: {system: allow}", "", 1},
		"not declared": {"", api.PolicyAllow, 0},
	} {
		t.Run(name, func(t *testing.T) {
			m, problems := config.ParseManifest("f", []byte(text+c.declared))
			require.Empty(t, problems)
			is := stored(t, api.LimitsTarget{System: true}, "gateway", 1, "rpm=1/s")
			is.OnUnavailable = c.is
			require.Len(t, m.Diff([]api.LimitsLevel{is}).Steps, c.steps)
		})
	}
}

// Whatever is stored and declared: once the plan is carried out, there is nothing
// left to do, what others manage is as it was, and the manifest manages exactly
// what it declares.
func TestAPlanLeadsToWhatIsDeclared(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		is, m := drawLevels(t), drawManifest(t)
		plan := m.Diff(is)
		after := carryOut(is, &plan)
		again := m.Diff(after)
		require.Empty(t, again.Steps)
		require.Equal(t, len(m.Levels), again.Unchanged)

		declared := map[api.LimitsTarget]bool{}
		for _, l := range m.Levels {
			declared[l.LimitsTarget] = true
		}
		managed := 0
		for _, l := range after {
			if l.Manifest == m.Name {
				require.True(t, declared[l.LimitsTarget])
				managed++
			}
		}
		require.Equal(t, len(m.Levels), managed)
		for _, l := range is {
			if l.Manifest != m.Name && !declared[l.LimitsTarget] {
				require.Contains(t, after, l)
			}
		}
		require.True(t, slices.IsSortedFunc(plan.Steps, func(a, b config.ManifestStep) int {
			return strings.Compare(fmt.Sprint(a.Kind == config.StepDelete), fmt.Sprint(b.Kind == config.StepDelete))
		}), "deletions are last")
	})
}

// carryOut is the store after a plan.
func carryOut(levels []api.LimitsLevel, plan *config.ManifestPlan) []api.LimitsLevel {
	after := slices.Clone(levels)
	for _, s := range plan.Steps {
		after = slices.DeleteFunc(after, func(l api.LimitsLevel) bool { return l.LimitsTarget == s.LimitsTarget })
		if s.Kind != config.StepDelete {
			after = append(after, api.LimitsLevel{
				LimitsTarget: s.LimitsTarget, Limits: s.Limits, OnUnavailable: s.OnUnavailable, Manifest: plan.Manifest, Version: s.Version() + 1,
			})
		}
	}
	return after
}

func drawTargets(t *rapid.T) []api.LimitsTarget {
	target := rapid.SampledFrom([]api.LimitsTarget{
		{System: true}, {Resource: "a"}, {Resource: "b"}, {Entity: "e"}, {Entity: "e", Resource: "a"}, {Entity: "f", Resource: "b"},
	})
	return rapid.SliceOfNDistinct(target, 0, 6, func(t api.LimitsTarget) api.LimitsTarget { return t }).Draw(t, "targets")
}

func drawLimits(t *rapid.T) []api.Limit {
	capacity := rapid.Int64Range(1, 2).Draw(t, "capacity")
	return []api.Limit{{Name: "rpm", Capacity: capacity, RefillAmount: 1, RefillPeriodSeconds: 60}}
}

func drawLevels(t *rapid.T) []api.LimitsLevel {
	var levels []api.LimitsLevel
	for _, target := range drawTargets(t) {
		levels = append(levels, api.LimitsLevel{
			LimitsTarget: target, Limits: drawLimits(t), Version: rapid.Int64Range(1, 9).Draw(t, "version"),
			Manifest: rapid.SampledFrom([]string{"", "mine", "theirs"}).Draw(t, "manifest"),
		})
	}
	return levels
}

func drawManifest(t *rapid.T) *config.Manifest {
	m := &config.Manifest{Name: "mine", Namespace: "default"}
	for _, target := range drawTargets(t) {
		m.Levels = append(m.Levels, config.ManifestLevel{LimitsTarget: target, Limits: drawLimits(t)})
	}
	return m
}
