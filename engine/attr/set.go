package attr

// fewElements is the largest set that is searched linearly.
const fewElements = 12

// membership returns a test for membership in elems. All values have the same kind.
func membership(elems []Value) func(Value) bool {
	if len(elems) <= fewElements {
		return func(v Value) bool { return contains(elems, v) }
	}
	members := make(map[string]struct{}, len(elems))
	for _, e := range elems {
		members[e.SortKey()] = struct{}{}
	}
	return func(v Value) bool {
		_, ok := members[v.SortKey()]
		return ok
	}
}

func contains(elems []Value, v Value) bool {
	for i := range elems {
		if elems[i].Equal(v) {
			return true
		}
	}
	return false
}

func hasDuplicates(elems []Value) bool {
	if len(elems) <= fewElements {
		for i := range elems {
			if contains(elems[:i], elems[i]) {
				return true
			}
		}
		return false
	}
	seen := make(map[string]struct{}, len(elems))
	for _, e := range elems {
		seen[e.SortKey()] = struct{}{}
	}
	return len(seen) != len(elems)
}

// equalSets compares sets; sets have no duplicates.
func equalSets(a, b []Value) bool {
	if len(a) != len(b) {
		return false
	}
	isMember := membership(b)
	for _, e := range a {
		if !isMember(e) {
			return false
		}
	}
	return true
}

// Has reports whether a set or a list has an element equal to e.
func (v Value) Has(e Value) bool {
	if v.kind.IsSet() || v.kind == KindL {
		return contains(v.nested.elems, e)
	}
	return false
}

// Union returns the set v followed by the elements of w that v lacks. Both sets
// have the same kind.
func (v Value) Union(w Value) Value {
	extra := missing(w.nested.elems, v.nested.elems)
	elems := make([]Value, 0, len(v.nested.elems)+len(extra))
	elems = append(append(elems, v.nested.elems...), extra...)
	return Value{kind: v.kind, nested: &nesting{elems: elems}}
}

// Without returns the set v without the elements of w. Both sets have the same
// kind. It reports false if no element is left, because sets cannot be empty.
func (v Value) Without(w Value) (Value, bool) {
	rest := missing(v.nested.elems, w.nested.elems)
	if len(rest) == 0 {
		return Value{}, false
	}
	return Value{kind: v.kind, nested: &nesting{elems: rest}}, true
}

// missing returns the elements that are not in other.
func missing(elems, other []Value) []Value {
	var out []Value
	isMember := membership(other)
	for _, e := range elems {
		if !isMember(e) {
			out = append(out, e)
		}
	}
	return out
}
