package config

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/tidegate/tidegate/pkg/api"
)

// MaxManifestLevels is how many levels one manifest can declare.
const MaxManifestLevels = 100_000

// MaxManifestBytes is how large a file may be.
const MaxManifestBytes = 8 << 20

// Manifest is the content of a file that is right in itself.
type Manifest struct {
	Name      string
	Namespace string
	Levels    []ManifestLevel // in the order of compareTargets
}

// ManifestLevel is one level that a file declares.
type ManifestLevel struct {
	api.LimitsTarget
	Limits        []api.Limit // by name; never empty
	OnUnavailable api.Policy  // empty: whatever is stored stays
	Line          int         // at which its limits begin
}

// ManifestProblem is something wrong with a file.
type ManifestProblem struct {
	File string `json:"file"`
	Line int    `json:"line"` // from 1
	What string `json:"what"`
	Fix  string `json:"fix"`
}

// String is the problem as compilers write theirs.
func (p ManifestProblem) String() string {
	return fmt.Sprintf("%s:%d: %s; %s", p.File, p.Line, p.What, p.Fix)
}

// compareTargets puts the system first, then resources, then entities, each by
// name, an entity's level for all resources before the others.
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
