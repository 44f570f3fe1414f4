package expr

import (
	"slices"

	"github.com/tidegate/tidegate/engine/attr"
)

// Projection is a choice of an item's values.
type Projection struct {
	paths []Path
}

// Paths is the chosen paths in the order of the expression. They overlap
// nowhere. The caller must not change them.
func (p *Projection) Paths() []Path { return p.paths }

// Apply is the chosen parts of the item: maps and lists hold what was chosen of
// them, lists without gaps. Absent parts are left out, and so are maps and
// lists of which nothing is left. The item does not change.
func (p *Projection) Apply(item attr.Item) attr.Item { return choose(item, p.paths) }

// choose is the parts of the item that the paths, which overlap nowhere, lead to.
func choose(item attr.Item, paths []Path) attr.Item {
	if len(paths) > 0 {
		if picked, ok := pick(attr.Map(item), paths, 0); ok {
			return picked.Map()
		}
	}
	return attr.Item{}
}

// pick is what the paths choose of v, which stands at their depth. It reports
// false if that is nothing.
func pick(v attr.Value, paths []Path, depth int) (attr.Value, bool) {
	if len(paths[0]) == depth {
		return v, true // paths do not overlap: this one is alone
	}
	if paths[0][depth].Index >= 0 {
		return pickElements(v, paths, depth)
	}
	fields := make(attr.Item, len(paths))
	for group := range groups(paths, depth) {
		inner, ok := child(v, group[0][depth])
		if !ok {
			continue
		}
		if picked, ok := pick(inner, group, depth+1); ok {
			fields[group[0][depth].Name] = picked
		}
	}
	return attr.Map(fields), len(fields) > 0
}

func pickElements(v attr.Value, paths []Path, depth int) (attr.Value, bool) {
	paths = slices.SortedStableFunc(slices.Values(paths), func(a, b Path) int { return a[depth].Index - b[depth].Index })
	var elems []attr.Value
	for group := range groups(paths, depth) {
		inner, ok := child(v, group[0][depth])
		if !ok {
			continue
		}
		if picked, ok := pick(inner, group, depth+1); ok {
			elems = append(elems, picked)
		}
	}
	return attr.List(elems), len(elems) > 0
}

// groups yields, in order of their first, the paths that share the element at
// the depth.
func groups(paths []Path, depth int) func(yield func([]Path) bool) {
	return func(yield func([]Path) bool) {
		for i, path := range paths {
			isSame := func(other Path) bool { return other[depth] == path[depth] }
			if slices.ContainsFunc(paths[:i], isSame) {
				continue
			}
			var group []Path
			for _, other := range paths[i:] {
				if isSame(other) {
					group = append(group, other)
				}
			}
			if !yield(group) {
				return
			}
		}
	}
}
