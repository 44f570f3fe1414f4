package expr

import (
	"slices"

	"github.com/tidegate/tidegate/engine/attr"
)

// Projection selects values of an item.
type Projection struct {
	paths []Path
}

// Paths returns the selected paths in the order of the expression. They do not
// overlap. The caller must not change them.
func (p *Projection) Paths() []Path { return p.paths }

// Apply returns the selected parts of the item: maps and lists keep their selected
// elements, lists without gaps. Apply leaves out absent parts, and maps and lists
// without a selected element. The item does not change.
func (p *Projection) Apply(item attr.Item) attr.Item { return choose(item, p.paths) }

// choose returns the parts of the item at the paths, which do not overlap.
func choose(item attr.Item, paths []Path) attr.Item {
	if len(paths) > 0 {
		if picked, ok := pick(attr.Map(item), paths, 0); ok {
			return picked.Map()
		}
	}
	return attr.Item{}
}

// pick returns the parts of v, a value at the depth, that the paths select. It
// reports false if they select nothing.
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

// groups yields the paths that share the element at the depth, in the order of the
// first path of each group.
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
