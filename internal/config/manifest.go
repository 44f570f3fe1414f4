package config

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/tidegate/tidegate/pkg/api"
)

// MaxManifestLevels bounds the levels of a manifest.
const MaxManifestLevels = 100_000

// MaxManifestBytes bounds the size of a file.
const MaxManifestBytes = 8 << 20

// Manifest is the content of a file without problems.
type Manifest struct {
	Name      string
	Namespace string
	Levels    []ManifestLevel // in the order of compareTargets
}

// ManifestLevel is a level that a file declares.
type ManifestLevel struct {
	api.LimitsTarget
	Limits        []api.Limit // by name; never empty
	OnUnavailable api.Policy  // empty: whatever is stored stays
	Line          int         // at which its limits begin
}

// ManifestProblem is a mistake in a file.
type ManifestProblem struct {
	File string `json:"file"`
	Line int    `json:"line"` // from 1
	What string `json:"what"`
	Fix  string `json:"fix"`
}

// String returns the problem in the format of compiler messages.
func (p ManifestProblem) String() string {
	return fmt.Sprintf("%s:%d: %s; %s", p.File, p.Line, p.What, p.Fix)
}

// compareTargets orders the system first, then resources, then entities, each by
// name. An entity's level for all its other resources comes before its levels for a
// resource.
func compareTargets(a, b api.LimitsTarget) int {
	rank := func(t api.LimitsTarget) int {
		switch {
		case t.System:
			return 0
		case t.Entity == "":
			return 1
		}
		return 2
	}
	return cmp.Or(cmp.Compare(rank(a), rank(b)), cmp.Compare(a.Entity, b.Entity), cmp.Compare(a.Resource, b.Resource))
}

func sortLevels(levels []ManifestLevel) {
	slices.SortFunc(levels, func(a, b ManifestLevel) int { return compareTargets(a.LimitsTarget, b.LimitsTarget) })
}
