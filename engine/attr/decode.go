package attr

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"unicode/utf8"
)

// MaxDepth is the maximum nesting depth of a value, counting the value itself.
const MaxDepth = 32

// maxName is the maximum length of an attribute name, in bytes.
const maxName = 1<<16 - 1

// Errors of values, with DynamoDB's messages.
var (
	// ErrTooDeep refuses a value that nests more than 32 levels.
	ErrTooDeep = &ValueError{"Nesting Levels have exceeded supported limits: " +
		"Attributes in the item have nested levels beyond supported limit"}

	errName = &ValueError{"One or more parameter values were invalid: " +
		"An attribute name must have 1 to 65535 bytes"}
	errNoType = &ValueError{"Supplied AttributeValue is empty, must contain exactly one of the supported datatypes"}
	errTypes  = &ValueError{"Supplied AttributeValue has more than one datatypes set, " +
		"must contain exactly one of the supported datatypes"}
	errNullFalse = &ValueError{"One or more parameter values were invalid: " +
		"Null attribute value types must have the value of true"}
)

// ValueError reports a well-formed value that DynamoDB refuses, with DynamoDB's
// message. DynamoDB answers with a ValidationException.
type ValueError struct {
	Message string
}

func (e *ValueError) Error() string { return e.Message }

// SyntaxError reports a text that is not JSON, or has JSON types that attribute
// values do not have. DynamoDB answers with a SerializationException.
type SyntaxError struct {
	Message string
	Offset  int // bytes before the fault
}

func (e *SyntaxError) Error() string { return e.Message }

// UnmarshalJSON reads an attribute value in DynamoDB JSON. The value shares no
// memory with data. It returns a SyntaxError for ill-formed text, and a ValueError
// with DynamoDB's message for a missing type, several types, an ill-formed number,
// an empty set, a set with duplicates, or nesting beyond 32 levels.
func (v *Value) UnmarshalJSON(data []byte) error {
	d := decoder{src: data}
	got, err := d.value(1)
	if err == nil {
		err = d.end()
	}
	if err != nil {
		return err
	}
	*v = got
	return nil
}

// UnmarshalJSON reads an object of attribute values in DynamoDB JSON into a new
// map. If a field name repeats, the last value wins. It fails like
// [Value.UnmarshalJSON].
func (it *Item) UnmarshalJSON(data []byte) error {
	d := decoder{src: data}
	got, err := d.item(1)
	if err == nil {
		err = d.end()
	}
	if err != nil {
		return err
	}
	*it = got
	return nil
}

// decoder walks a JSON text. Its methods leave at behind the input they have read.
type decoder struct {
	src []byte
	at  int
}

// next skips white space and returns the byte behind it, or 0 at the end.
func (d *decoder) next() byte {
	for d.at < len(d.src) {
		c := d.src[d.at]
		if c > ' ' || c != ' ' && c != '\t' && c != '\n' && c != '\r' {
			return c
		}
		d.at++
	}
	return 0
}

func (d *decoder) take(c byte) bool {
	if d.next() != c {
		return false
	}
	d.at++
	return true
}

func (d *decoder) expected(what string) error {
	if d.next() == 0 && d.at >= len(d.src) {
		return &SyntaxError{Message: "expected " + what + ", found the end of the JSON text", Offset: d.at}
	}
	return &SyntaxError{
		Message: fmt.Sprintf("expected %s, found %q at byte %d", what, d.src[d.at], d.at),
		Offset:  d.at,
	}
}

func (d *decoder) end() error {
	if d.next(); d.at < len(d.src) {
		return d.expected("the end")
	}
	return nil
}

// The decoder estimates the number of fields from the size of the JSON, so that
// the map of an item does not grow step by step: a field for every fieldBytes, at
// most manyFields.
const (
	fieldBytes = 32
	manyFields = 64
)

// item reads an object of values at the depth.
func (d *decoder) item(depth int) (Item, error) {
	if !d.take('{') {
		return nil, d.expected("an object of attribute values")
	}
	var out Item
	if depth == 1 {
		out = make(Item, min(len(d.src)/fieldBytes, manyFields))
	} else {
		out = make(Item)
	}
	if d.take('}') {
		return out, nil
	}
	for {
		name, err := d.text()
		if err == nil && (name == "" || len(name) > maxName) {
			err = errName
		}
		if err != nil {
			return nil, err
		}
		if !d.take(':') {
			return nil, d.expected("a colon")
		}
		if out[name], err = d.value(depth); err != nil {
			return nil, err
		}
		if d.take('}') {
			return out, nil
		}
		if !d.take(',') {
			return nil, d.expected("a comma or the end of the object")
		}
	}
}

// value reads an object with a single field; its name is the type of the value.
func (d *decoder) value(depth int) (Value, error) {
	if depth > MaxDepth {
		return Value{}, ErrTooDeep
	}
	if !d.take('{') {
		return Value{}, d.expected("an attribute value")
	}
	if d.take('}') {
		return Value{}, errNoType
	}
	tag, err := d.raw()
	if err != nil {
		return Value{}, err
	}
	if !d.take(':') {
		return Value{}, d.expected("a colon")
	}
	v, err := d.content(tag, depth)
	if err != nil {
		return Value{}, err
	}
	if d.take('}') {
		return v, nil
	}
	if d.take(',') {
		return Value{}, errTypes
	}
	return Value{}, d.expected("the end of the attribute value")
}

func (d *decoder) content(tag []byte, depth int) (Value, error) {
	switch string(tag) {
	case "N":
		return d.number()
	case "S":
		s, err := d.text()
		return Str(s), err
	case "B":
		return d.binary()
	case "BOOL":
		b, err := d.bool()
		return Bool(b), err
	case "NULL":
		b, err := d.bool()
		if err == nil && !b {
			err = errNullFalse
		}
		return Null(), err
	case "M":
		fields, err := d.item(depth + 1)
		return Map(fields), err
	case "L":
		elems, err := d.array(func() (Value, error) { return d.value(depth + 1) })
		return List(elems), err
	case "SS":
		return d.set(KindSS, func() (Value, error) { s, err := d.text(); return Str(s), err })
	case "NS":
		return d.set(KindNS, d.number)
	case "BS":
		return d.set(KindBS, d.binary)
	}
	return Value{}, errNoType
}

func (d *decoder) set(kind Kind, read func() (Value, error)) (Value, error) {
	elems, err := d.array(read)
	if err != nil {
		return Value{}, err
	}
	return Set(kind, elems)
}

func (d *decoder) array(read func() (Value, error)) ([]Value, error) {
	if !d.take('[') {
		return nil, d.expected("an array")
	}
	var elems []Value
	if d.take(']') {
		return elems, nil
	}
	for {
		v, err := read()
		if err != nil {
			return nil, err
		}
		elems = append(elems, v)
		if d.take(']') {
			return elems, nil
		}
		if !d.take(',') {
			return nil, d.expected("a comma or the end of the array")
		}
	}
}

func (d *decoder) bool() (bool, error) {
	d.next()
	for _, word := range [...]string{"true", "false"} {
		if len(d.src)-d.at >= len(word) && string(d.src[d.at:d.at+len(word)]) == word {
			d.at += len(word)
			return word == "true", nil
		}
	}
	return false, d.expected("true or false")
}

func (d *decoder) number() (Value, error) {
	digits, err := d.raw()
	if err != nil {
		return Value{}, err
	}
	n, err := parseNumber(digits)
	return Num(n), err
}

func (d *decoder) binary() (Value, error) {
	begin := d.at
	encoded, err := d.raw()
	if err != nil {
		return Value{}, err
	}
	b, err := base64.StdEncoding.Strict().AppendDecode(make([]byte, 0, len(encoded)), encoded)
	if err != nil || bytes.ContainsAny(encoded, "\r\n") { // the library skips line breaks
		return Value{}, &SyntaxError{
			Message: fmt.Sprintf("'%s' can not be converted to a Blob: invalid base64", encoded),
			Offset:  begin,
		}
	}
	return Bin(b), nil
}

func (d *decoder) text() (string, error) {
	raw, err := d.raw()
	return string(raw), err
}

// raw reads a string. If it has no escapes, the result points into the source.
func (d *decoder) raw() ([]byte, error) {
	if !d.take('"') {
		return nil, d.expected("a string")
	}
	begin, isASCII := d.at, true
	for ; d.at < len(d.src); d.at++ {
		switch c := d.src[d.at]; {
		case c == '"':
			raw := d.src[begin:d.at]
			if !isASCII && !utf8.Valid(raw) {
				return nil, &SyntaxError{Message: "a string is not UTF-8", Offset: begin}
			}
			d.at++
			return raw, nil
		case c == '\\':
			return d.escaped(begin)
		case c < ' ':
			return nil, d.expected("no control character in a string")
		case c >= utf8.RuneSelf:
			isASCII = false
		}
	}
	return nil, d.expected("the end of the string")
}

// escaped reads the rest of a string that has an escape. Escapes are rare in
// items, so the standard library decodes them.
func (d *decoder) escaped(begin int) ([]byte, error) {
	for d.at < len(d.src) && d.src[d.at] != '"' {
		if d.src[d.at] == '\\' {
			d.at++
		}
		d.at++
	}
	if d.at >= len(d.src) {
		d.at = len(d.src)
		return nil, d.expected("the end of the string")
	}
	d.at++
	quoted := d.src[begin-1 : d.at]
	if !utf8.Valid(quoted) {
		return nil, &SyntaxError{Message: "a string is not UTF-8", Offset: begin}
	}
	var s string
	if err := json.Unmarshal(quoted, &s); err != nil {
		return nil, &SyntaxError{Message: "ill-formed escape in a string: " + err.Error(), Offset: begin}
	}
	return []byte(s), nil
}
