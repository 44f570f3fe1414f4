package expr

import (
	"slices"

	"github.com/tidegate/tidegate/engine/attr"
)

// applyNested applies the edits below the top level, all edits of an attribute at
// once.
func applyNested(item attr.Item, edits []edit) error {
	for _, group := range groupEdits(edits, 0) {
		if len(group[0].path) == 1 {
			continue
		}
		name := group[0].path[0].Name
		old, ok := item[name]
		if !ok {
			return errInvalidPath
		}
		v, err := rebuild(old, group, 1)
		if err != nil {
			return err
		}
		item[name] = v
	}
	return nil
}

// groupEdits groups the edits whose paths share the element at the depth, in the
// order of the first edit of each group.
func groupEdits(edits []edit, depth int) [][]edit {
	places := make(map[Element]int)
	var groups [][]edit
	for _, e := range edits {
		place, ok := places[e.path[depth]]
		if !ok {
			place = len(groups)
			places[e.path[depth]] = place
			groups = append(groups, nil)
		}
		groups[place] = append(groups[place], e)
	}
	return groups
}

// rebuild returns the document v with the edits applied. The paths of the edits
// agree up to the depth, and all of them continue with names or all with indexes.
func rebuild(v attr.Value, edits []edit, depth int) (attr.Value, error) {
	if edits[0].path[depth].Index >= 0 {
		if v.Kind() != attr.KindL {
			return v, errInvalidPath
		}
		return rebuildList(v.List(), edits, depth)
	}
	if v.Kind() != attr.KindM {
		return v, errInvalidPath
	}
	fields := v.Map().Clone()
	if fields == nil {
		fields = attr.Item{}
	}
	for _, group := range groupEdits(edits, depth) {
		if len(group[0].path) == depth+1 {
			group[0].write(fields) // paths do not overlap: it is alone
			continue
		}
		name := group[0].path[depth].Name
		inner, ok := fields[name]
		if !ok {
			return v, errInvalidPath
		}
		var err error
		if fields[name], err = rebuild(inner, group, depth+1); err != nil {
			return v, err
		}
	}
	return attr.Map(fields), nil
}

// rebuildList resolves every index in the old list: removed elements close the gap
// at the end, and elements set behind the end are appended in the order of their
// indexes.
func rebuildList(old []attr.Value, edits []edit, depth int) (attr.Value, error) {
	elems := slices.Clone(old)
	removed := make(map[int]bool)
	groups := groupEdits(edits, depth)
	slices.SortFunc(groups, func(a, b []edit) int { return a[0].path[depth].Index - b[0].path[depth].Index })
	for _, group := range groups {
		index, first := group[0].path[depth].Index, &group[0]
		isInside := index < len(old)
		switch isLeaf := len(first.path) == depth+1; {
		case !isLeaf && !isInside:
			return attr.Value{}, errInvalidPath
		case !isLeaf:
			var err error
			if elems[index], err = rebuild(old[index], group, depth+1); err != nil {
				return attr.Value{}, err
			}
		case first.effect == effectSet && isInside:
			elems[index] = first.value
		case first.effect == effectSet:
			elems = append(elems, first.value)
		case first.effect == effectRemove:
			removed[index] = true
		}
	}
	if len(removed) == 0 {
		return attr.List(elems), nil
	}
	kept := make([]attr.Value, 0, len(elems))
	for i, e := range elems {
		if i >= len(old) || !removed[i] {
			kept = append(kept, e)
		}
	}
	return attr.List(kept), nil
}
