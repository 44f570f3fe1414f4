package engine

import (
	"encoding/json"

	"github.com/tidegate/tidegate/engine/attr"
)

// appendText writes s as a JSON string.
func appendText(b []byte, s string) []byte {
	for i := range len(s) {
		if c := s[i]; c < ' ' || c == '"' || c == '\\' || c >= 0x7f {
			quoted, err := json.Marshal(s)
			if err != nil {
				return append(b, `""`...) // not reached: a string always marshals
			}
			return append(b, quoted...)
		}
	}
	b = append(b, '"')
	b = append(b, s...)
	return append(b, '"')
}

// appendList writes a JSON array; appendOne writes each element.
func appendList[T any](b []byte, list []T, appendOne func([]byte, T) []byte) []byte {
	b = append(b, '[')
	for i, v := range list {
		if i > 0 {
			b = append(b, ',')
		}
		b = appendOne(b, v)
	}
	return append(b, ']')
}

func appendItem(b []byte, item attr.Item) []byte { return item.AppendJSON(b) }

// object writes the fields of a JSON object, which may be empty.
type object struct {
	b    []byte
	some bool
}

// field begins a field; the caller appends its value to o.b.
func (o *object) field(name string) {
	if o.some {
		o.b = append(o.b, ',')
	} else {
		o.b, o.some = append(o.b, '{'), true
	}
	o.b = append(appendText(o.b, name), ':')
}

// end closes the object and returns its bytes.
func (o *object) end() []byte {
	if !o.some {
		o.b = append(o.b, '{')
	}
	return append(o.b, '}')
}

// mustJSON encodes the plain structs of table descriptions, which cannot fail.
func mustJSON(v any) []byte {
	b, err := json.Marshal(v)
	if err != nil {
		panic(err) // answered as an InternalServerError
	}
	return b
}
