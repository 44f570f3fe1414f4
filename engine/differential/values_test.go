package differential

import (
	"encoding/base64"
	"fmt"

	"pgregory.net/rapid"
)

// pick draws one of a few.
func pick[T any](t *rapid.T, label string, of ...T) T { return rapid.SampledFrom(of).Draw(t, label) }

// chance is true once in n draws; shrinking makes it false.
func chance(t *rapid.T, label string, n int) bool {
	return rapid.IntRange(0, n-1).Draw(t, label) == n-1
}

func number(n any) object { return object{"N": fmt.Sprint(n)} }
func str(s string) object { return object{"S": s} }

// anyNumber draws the text of a number: small ones often, and those at the ends
// of what DynamoDB can hold.
func anyNumber(t *rapid.T) string {
	switch rapid.IntRange(0, 9).Draw(t, "number") {
	case 0, 1, 2, 3, 4:
		return fmt.Sprint(rapid.IntRange(-3, 12).Draw(t, "integer"))
	case 5:
		return pick(t, "fraction", "0.1", "-0.25", "1.50", "0.001", "-12.75", "00.5", "1e2", "2E-3", "+4", "-0", ".5", "5.")
	case 6:
		return fmt.Sprint(rapid.Int64().Draw(t, "long"))
	case 7:
		return rapid.StringMatching(`-?[1-9][0-9]{37}`).Draw(t, "digits")
	case 8:
		return rapid.StringMatching(`-?[1-9]\.[0-9]{0,36}e-?[0-9]{1,2}`).Draw(t, "scientific")
	}
	return pick(t, "end", "9.9999999999999999999999999999999999999E+125", "-9.9999999999999999999999999999999999999E+125",
		"1E-130", "-1E-130", "12345678901234567890123456789012345678", "0.12345678901234567890123456789012345678")
}

func anyText(t *rapid.T) string {
	return pick(t, "text", "a", "b", "", "ab", "abc", "ba", "é", "\U0001f600", "a\x00b", "\"\\\n", "zz")
}

func anyBinary(t *rapid.T) string {
	return base64.StdEncoding.EncodeToString(pick(t, "binary", []byte{1}, []byte{}, []byte{0, 255}, []byte{255}, []byte("ab")))
}

// anySet draws a set of at least one element.
func anySet(t *rapid.T, kind string) object {
	draw := func(t *rapid.T) any { return fmt.Sprint(rapid.IntRange(0, 5).Draw(t, "element")) }
	switch kind {
	case "SS":
		draw = func(t *rapid.T) any { return pick(t, "element", "a", "b", "c", "", "é") }
	case "BS":
		draw = func(t *rapid.T) any { return anyBinary(t) }
	}
	elems := rapid.SliceOfNDistinct(rapid.Custom(draw), 1, 4, rapid.ID[any]).Draw(t, "set")
	return object{kind: elems}
}

// anyValue draws a value of any kind that nests at most depth levels.
func anyValue(t *rapid.T, depth int) object {
	kinds := []string{"N", "S", "B", "BOOL", "NULL", "SS", "NS", "BS"}
	if depth > 1 {
		kinds = append(kinds, "L", "M", "L", "M")
	}
	switch kind := pick(t, "kind", kinds...); kind {
	case "N":
		return number(anyNumber(t))
	case "S":
		return str(anyText(t))
	case "B":
		return object{"B": anyBinary(t)}
	case "BOOL":
		return object{"BOOL": rapid.Bool().Draw(t, "truth")}
	case "NULL":
		return object{"NULL": true}
	case "L":
		return anyList(t, depth)
	case "M":
		return anyMap(t, depth)
	default:
		return anySet(t, kind)
	}
}

func anyList(t *rapid.T, depth int) object {
	elems := rapid.SliceOfN(rapid.Custom(func(t *rapid.T) any { return anyValue(t, depth-1) }), 0, 3).Draw(t, "list")
	if elems == nil {
		elems = []any{}
	}
	return object{"L": elems}
}

func anyMap(t *rapid.T, depth int) object {
	fields := object{}
	for _, name := range []string{"x", "y", "z"} {
		if rapid.Bool().Draw(t, name) {
			fields[name] = anyValue(t, depth-1)
		}
	}
	return object{"M": fields}
}

// column is an attribute of the tests. Each has a kind that it nearly always
// has, so that expressions meet what they are made for.
type column struct {
	name string
	kind string
}

func columns() []column {
	return []column{
		{"m", "M"},
		{"l", "L"},
		{"n", "N"},
		{"n2", "N"},
		{"ss", "SS"},
		{"ns", "NS"},
		{"bs", "BS"},
		{"s", "S"},
		{"b", "B"},
		{"g1", "S"},
		{"g1n", "N"},
		{"extra", "S"},
	}
}

// content draws a value for a column.
func (c column) content(t *rapid.T) object {
	switch c.name {
	case "g1":
		return c.rarelyWrong(t, str(pick(t, "g1", "a", "b")))
	case "g1n":
		return c.rarelyWrong(t, number(pick(t, "g1n", "1", "2", "10", "-1", "2.5")))
	}
	if chance(t, "any kind", 12) {
		return anyValue(t, 3)
	}
	return c.usual(t)
}

// usual draws a value of the column's kind.
func (c column) usual(t *rapid.T) object {
	switch c.kind {
	case "M":
		return anyMap(t, 3)
	case "L":
		return anyList(t, 3)
	case "N":
		return number(anyNumber(t))
	case "S":
		return str(anyText(t))
	case "B":
		return object{"B": anyBinary(t)}
	default:
		return anySet(t, c.kind)
	}
}

// rarelyWrong replaces the value of an index key by one that no index takes.
func (c column) rarelyWrong(t *rapid.T, v object) object {
	if chance(t, "wrong index key", 40) {
		return anyValue(t, 2)
	}
	return v
}

// table is the table of one sequence.
type table struct {
	name string
	sort string // kind of the sort key: S, N or B
}

func (x *table) sortKeys() []object {
	switch x.sort {
	case "N":
		return []object{number(-1), number(0), number("2"), number("10"), number("1e20")}
	case "B":
		return []object{{"B": "AA=="}, {"B": "AQ=="}, {"B": "AQI="}, {"B": "/w=="}}
	}
	return []object{str("a"), str("ab"), str("b"), str("é")}
}

func (x *table) key(t *rapid.T) object {
	k := object{"pk": str(pick(t, "pk", "p", "q")), "sk": pick(t, "sk", x.sortKeys()...)}
	if chance(t, "wrong key", 150) {
		k["sk"] = anyValue(t, 2)
	}
	return k
}

func (x *table) item(t *rapid.T) object {
	it := x.key(t)
	for _, c := range columns() {
		if rapid.Bool().Draw(t, c.name) {
			it[c.name] = c.content(t)
		}
	}
	return it
}
