package expr

import (
	"strconv"
	"strings"
)

// Element is a part of a document path: the name of a field, or an index into a
// list.
type Element struct {
	Name  string
	Index int // -1 for a name
}

// Path leads to a value inside an item; its first element is the name of a
// top-level attribute.
type Path []Element

// String prints the path like DynamoDB's errors: [a, b, [0]].
func (p Path) String() string {
	words := make([]string, len(p))
	for i, e := range p {
		words[i] = e.Name
		if e.Index >= 0 {
			words[i] = "[" + strconv.Itoa(e.Index) + "]"
		}
	}
	return "[" + strings.Join(words, ", ") + "]"
}

// step is an Element whose name may be an unresolved placeholder.
type step struct {
	kind stepKind
	name string // of a stepName
	n    int    // the slot of a stepPlaceholder; the index of a stepIndex
}

type stepKind uint8

const (
	stepName stepKind = iota
	stepPlaceholder
	stepIndex
)

// checkDistinctPaths refuses paths that contain each other, and paths that use the
// same value as a map and as a list.
func checkDistinctPaths(paths []Path) error {
	var conflict error
	for i, second := range paths {
		for _, first := range paths[:i] {
			if first[0].Name != second[0].Name {
				continue
			}
			what := collision(first, second)
			if what == "" {
				continue
			}
			err := faultf("Two document paths %s with each other; must remove or rewrite one of these paths; "+
				"path one: %v, path two: %v", what, first, second)
			if what == "overlap" {
				return err
			}
			if conflict == nil {
				conflict = err
			}
		}
	}
	return conflict
}

// collision returns how two paths collide: "overlap", "conflict", or "" if they do
// not.
func collision(a, b Path) string {
	for i := range min(len(a), len(b)) {
		if (a[i].Index < 0) != (b[i].Index < 0) {
			return "conflict"
		}
		if a[i] != b[i] {
			return ""
		}
	}
	return "overlap"
}
