package attr

import "strings"

// Equal reports whether both are the same value: numbers by their worth, sets
// without regard to order, documents deeply.
func (v Value) Equal(w Value) bool {
	switch {
	case v.kind != w.kind:
		return false
	case v.kind.IsSet():
		return equalSets(v.nested.elems, w.nested.elems)
	case v.kind == KindL:
		return equalLists(v.nested.elems, w.nested.elems)
	case v.kind == KindM:
		return v.nested.fields.Equal(w.nested.fields)
	}
	// A number has a single form, so comparing the fields compares the numbers.
	return v.text == w.text && v.lo == w.lo && v.hi == w.hi && v.exp == w.exp && v.flag == w.flag
}

// Equal reports whether both items have equal values under the same names. A nil
// item equals an empty item.
func (it Item) Equal(other Item) bool {
	if len(it) != len(other) {
		return false
	}
	for name, v := range it {
		w, ok := other[name]
		if !ok || !v.Equal(w) {
			return false
		}
	}
	return true
}

func equalLists(a, b []Value) bool {
	if len(a) != len(b) {
		return false
	}
	for i := range a {
		if !a[i].Equal(b[i]) {
			return false
		}
	}
	return true
}

// Compare orders two values of the same kind, S, N or B: strings and binaries by
// their bytes, numbers numerically. It reports false for all other values, which
// have no order.
func Compare(a, b Value) (int, bool) {
	switch {
	case a.kind != b.kind || !a.kind.IsScalar():
		return 0, false
	case a.kind == KindN:
		return a.Number().Cmp(b.Number()), true
	}
	return strings.Compare(a.text, b.text), true
}

// First bytes of a number's sort key.
const (
	sortNegative = 0x10
	sortZero     = 0x20
	sortPositive = 0x30
)

// SortKey returns a string whose byte order is the order of the values of that
// kind. For S and B it is the bytes; for N it encodes the sign, the exponent and
// the digits, two to a byte. Other kinds have no order and no sort key.
func (v Value) SortKey() string {
	if v.kind == KindN {
		return v.Number().sortKey()
	}
	return v.text
}

// sortKey encodes the sign, the exponent and pairs of digits. For a negative
// number it complements each byte and ends with 0xff, so that of two numbers with
// the same first digits the longer sorts first. A pair is encoded as 1 to 100,
// never 0.
func (n Number) sortKey() string {
	if n.IsZero() {
		return string([]byte{sortZero})
	}
	var buf [maxDigits]byte
	digits, magnitude := n.significant(buf[:0])
	var key [2 + maxDigits/2 + 1]byte
	key[0], key[1] = sortPositive, byte(magnitude-minMagnitude)
	size := 2
	for i := 0; i < len(digits); i += 2 {
		pair := (digits[i] - '0') * 10
		if i+1 < len(digits) {
			pair += digits[i+1] - '0'
		}
		key[size] = pair + 1
		size++
	}
	if n.neg {
		key[0] = sortNegative
		for i := 1; i < size; i++ {
			key[i] = ^key[i]
		}
		key[size] = 0xff
		size++
	}
	return string(key[:size])
}
