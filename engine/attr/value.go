package attr

import (
	"encoding/base64"
	"fmt"
	"maps"
	"strings"
)

// Value is the content of an attribute. The zero Value has no kind, and DynamoDB
// cannot store it.
type Value struct {
	hi, lo uint64 // N: the coefficient
	exp    int16  // N: the exponent
	flag   bool   // N: negative; BOOL: the truth
	kind   Kind
	text   string   // S and B
	nested *nesting // sets and documents
}

// nesting is the content of a set (elems), a list (elems) or a map (fields).
type nesting struct {
	elems  []Value
	fields Item
}

// Item is a set of named values: a stored item, a key, or the content of a map.
type Item map[string]Value

// Str returns a string value.
func Str(s string) Value { return Value{kind: KindS, text: s} }

// Num returns a number value.
func Num(n Number) Value {
	return Value{kind: KindN, hi: n.hi, lo: n.lo, exp: n.exp, flag: n.neg}
}

// Bin returns a binary value with a copy of b.
func Bin(b []byte) Value { return Value{kind: KindB, text: string(b)} }

// Bool returns a boolean value.
func Bool(b bool) Value { return Value{kind: KindBOOL, flag: b} }

// Null returns the null value.
func Null() Value { return Value{kind: KindNULL} }

// List returns a list of elems, and keeps the slice.
func List(elems []Value) Value { return Value{kind: KindL, nested: &nesting{elems: elems}} }

// Map returns a map of fields, and keeps the Item.
func Map(fields Item) Value { return Value{kind: KindM, nested: &nesting{fields: fields}} }

// Set returns a set of elems in their order, and keeps the slice. It fails if kind
// is not a set or an element has another kind and, with DynamoDB's message, if the
// set is empty or has duplicates.
func Set(kind Kind, elems []Value) (Value, error) {
	if !kind.IsSet() {
		return Value{}, fmt.Errorf("a set is of kind SS, NS or BS, not %q", kind)
	}
	if len(elems) == 0 {
		return Value{}, emptySet(kind)
	}
	for _, e := range elems {
		if e.kind != kind.Member() {
			return Value{}, fmt.Errorf("an element of kind %s does not belong into a set of kind %s", e.kind, kind)
		}
	}
	if hasDuplicates(elems) {
		return Value{}, duplicates(kind, elems)
	}
	return Value{kind: kind, nested: &nesting{elems: elems}}, nil
}

func emptySet(kind Kind) error {
	what := "Binary sets should not be empty"
	if kind == KindSS {
		what = "An string set  may not be empty"
	}
	if kind == KindNS {
		what = "An number set  may not be empty"
	}
	return &ValueError{"One or more parameter values were invalid: " + what}
}

func duplicates(kind Kind, elems []Value) error {
	if kind == KindNS {
		return &ValueError{"Input collection contains duplicates"}
	}
	words := make([]string, len(elems))
	for i, e := range elems {
		words[i] = e.text
		if kind == KindBS {
			words[i] = base64.StdEncoding.EncodeToString([]byte(e.text))
		}
	}
	list := "One or more parameter values were invalid: Input collection [" + strings.Join(words, ", ") + "]"
	if kind == KindBS {
		return &ValueError{list + "of type BS contains duplicates."}
	}
	return &ValueError{list + " contains duplicates."}
}

// Kind returns the value's data type; 0 for the zero Value.
func (v Value) Kind() Kind { return v.kind }

// Text returns the content of an S; empty for other kinds.
func (v Value) Text() string {
	if v.kind != KindS {
		return ""
	}
	return v.text
}

// Bytes returns a copy of the content of a B; nil for other kinds.
func (v Value) Bytes() []byte {
	if v.kind != KindB {
		return nil
	}
	return []byte(v.text)
}

// Number returns the content of an N; zero for other kinds.
func (v Value) Number() Number {
	if v.kind != KindN {
		return Number{}
	}
	return Number{hi: v.hi, lo: v.lo, exp: v.exp, neg: v.flag}
}

// Bool returns the content of a BOOL; false for other kinds.
func (v Value) Bool() bool { return v.kind == KindBOOL && v.flag }

// List returns the elements of an L; nil for other kinds.
func (v Value) List() []Value {
	if v.kind != KindL {
		return nil
	}
	return v.nested.elems
}

// Map returns the fields of an M; nil for other kinds.
func (v Value) Map() Item {
	if v.kind != KindM {
		return nil
	}
	return v.nested.fields
}

// Elems returns the elements of a set in the order in which they were given; nil
// for other kinds.
func (v Value) Elems() []Value {
	if !v.kind.IsSet() {
		return nil
	}
	return v.nested.elems
}

// Depth returns the nesting depth of the value: 1, and for documents the depth of
// the deepest element plus 1.
func (v Value) Depth() int {
	deepest := 0
	for _, e := range v.List() {
		deepest = max(deepest, e.Depth())
	}
	for _, e := range v.Map() {
		deepest = max(deepest, e.Depth())
	}
	return deepest + 1
}

// Clone copies the item's map. The copy shares the values, which never change. The
// clone of nil is nil.
func (it Item) Clone() Item { return maps.Clone(it) }
