package api

import (
	"bytes"
	"errors"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// member is a field of a request, as its struct tags describe it.
type member struct {
	name     string // on the wire
	rule     rule
	required bool
	index    []int
}

// members returns the fields of a request's struct, including fields of embedded structs.
func members(t reflect.Type) []member {
	var all []member
	for _, f := range reflect.VisibleFields(t) {
		tag, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		if tag == "" {
			continue // an embedded struct
		}
		name, option, _ := strings.Cut(f.Tag.Get("rule"), ",")
		all = append(all, member{name: tag, rule: ruleOf(name), required: option == "required", index: f.Index})
	}
	return all
}

// DecodeRequest reads the request Q of an admin verb. It is strict: it fails with an *Error
// unless the payload is a single object with the fields of Q alone, each at most once, of its
// type and within its rule, and the request is valid in itself. Checks that need a service's
// data, such as for unknown entities, happen later. Absent fields get their defaults.
func DecodeRequest[Q any](payload []byte) (Q, error) {
	var q, zero Q
	if len(payload) > MaxPayload {
		return zero, Errorf(CodePayloadTooLarge, "", "the request has %d bytes; at most %d are allowed", len(payload), MaxPayload)
	}
	var d decoding
	err := json.Unmarshal(payload, &q, json.RejectUnknownMembers(true), json.WithUnmarshalers(json.UnmarshalFromFunc(d.value)))
	if err != nil {
		return zero, d.asError(payload, err)
	}
	if err := complete(reflect.ValueOf(&q).Elem()); err != nil {
		return zero, err
	}
	switch c := any(&q).(type) {
	case interface{ check() error }: // where a request is narrower or wider than its target
		err = c.check()
	case interface{ Check() error }:
		err = c.Check()
	}
	if err != nil {
		return zero, err
	}
	return q, nil
}

// complete refuses a struct without a required field, and sets absent fields to their
// defaults. No rule of a required field allows the zero value.
func complete(v reflect.Value) error {
	if v.Kind() != reflect.Struct {
		return nil
	}
	for _, m := range members(v.Type()) {
		switch field := v.FieldByIndex(m.index); {
		case !field.IsZero():
		case m.required:
			return missing(m.name)
		case m.rule.absent != nil:
			field.Set(reflect.ValueOf(m.rule.absent))
		}
	}
	return nil
}

// spaces is the white space of JSON.
const spaces = " \t\r\n"

// maxNesting is the number of objects and arrays around the innermost field: request,
// limits, limit.
const maxNesting = 4

// decoding tracks the position while a request is read.
type decoding struct {
	structs [maxNesting]reflect.Type // by depth: the structs being read
}

// value reads a value of a request, or leaves it to the library by errors.ErrUnsupported.
// Its errors are *Error with the whole path.
func (d *decoding) value(dec *jsontext.Decoder, into any) error {
	v := reflect.ValueOf(into).Elem()
	t := v.Type()
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	if err := d.kind(dec, t.Kind()); err != nil {
		return err
	}
	if v.Kind() == reflect.Pointer {
		return errors.ErrUnsupported // value is called again, with the target
	}
	depth := dec.StackDepth()
	switch v.Kind() {
	case reflect.Struct:
		d.structs[depth] = t
	case reflect.String:
		return d.str(dec, v)
	case reflect.Int64:
		return d.integer(dec, v)
	case reflect.Slice:
		return d.limits(dec, v.Addr().Interface().(*[]Limit))
	case reflect.Map:
		return d.metadata(dec, v.Addr().Interface().(*map[string]string))
	default: // the library's own decoder
	}
	return errors.ErrUnsupported
}

// kind refuses the next value unless it is of the JSON type of a Go kind.
func (d *decoding) kind(dec *jsontext.Decoder, k reflect.Kind) error {
	if !d.colon(dec) {
		return Errorf(CodeMalformedJSON, path(dec.StackPointer().Parent()), "':' should follow %q", cut(dec.StackPointer().LastToken()))
	}
	next := dec.PeekKind()
	want, is := "", false
	switch k {
	case reflect.Struct, reflect.Map:
		want, is = "an object", next == '{'
	case reflect.Slice:
		want, is = "an array", next == '['
	case reflect.String:
		want, is = "a string", next == '"'
	case reflect.Int64:
		want, is = "a number", next == '0'
	case reflect.Bool:
		want, is = "a boolean", next == 't' || next == 'f'
	default: // requests have no other kinds
	}
	if is {
		return nil
	}
	where := d.where(dec)
	switch next {
	case 'n', 't', 'f': // may be misspelled
		if _, err := dec.ReadToken(); err != nil {
			return err
		}
	case '{', '[', '"', '0':
	default: // not a value at all
		_, err := dec.ReadToken()
		return err
	}
	return Errorf(CodeWrongType, where, "must be %s, not %s", want, kindName(next))
}

func kindName(k jsontext.Kind) string {
	switch k {
	case '{':
		return "an object"
	case '[':
		return "an array"
	case '"':
		return "a string"
	case '0':
		return "a number"
	case 'n':
		return "null"
	default:
		return "a boolean"
	}
}

// str reads a string.
func (d *decoding) str(dec *jsontext.Decoder, v reflect.Value) error {
	where, r := d.where(dec), d.rule(dec)
	token, err := dec.ReadToken()
	if err != nil {
		return err
	}
	s := token.String()
	if r.text != nil {
		if err := r.text(s); err != nil {
			return within(where, err)
		}
	}
	v.SetString(s)
	return nil
}

// integer reads a whole number, written in digits alone.
func (d *decoding) integer(dec *jsontext.Decoder, v reflect.Value) error {
	where, r := d.where(dec), d.rule(dec)
	value, err := dec.ReadValue()
	if err != nil {
		return err
	}
	if rest := dec.UnreadBuffer(); len(rest) > 0 && '0' <= rest[0] && rest[0] <= '9' {
		return Errorf(CodeMalformedJSON, where, "a number has no leading zeros")
	}
	n, err := wholeNumber(string(value), r.code, r.lowest, r.highest)
	if err != nil {
		return within(where, err)
	}
	v.SetInt(n)
	return nil
}

// limits reads the limits of a level: at least a single limit, with unique names.
func (d *decoding) limits(dec *jsontext.Decoder, into *[]Limit) error {
	if _, err := dec.ReadToken(); err != nil {
		return err
	}
	limits := make([]Limit, 0, 4)
	for dec.PeekKind() != ']' {
		where := d.where(dec)
		if dec.PeekKind() == 0 && (len(limits) == 0 || rest(dec, ',')) {
			return Errorf(CodeMalformedJSON, where, "a limit should follow")
		}
		if len(limits) == MaxLimits {
			return Errorf(CodeTooManyLimits, where, "a bucket has at most %d limits", MaxLimits)
		}
		var l Limit
		err := json.UnmarshalDecode(dec, &l)
		if err == nil {
			if err = addLimit(&limits, l); err != nil {
				err = within(where, err)
			}
		}
		if err != nil {
			return err
		}
	}
	if len(limits) == 0 {
		return Errorf(CodeMissingField, "limits", "name at least one limit")
	}
	*into = limits
	_, err := dec.ReadToken()
	return err
}

// addLimit adds a limit that is complete and valid, and named once.
func addLimit(limits *[]Limit, l Limit) error {
	err := complete(reflect.ValueOf(&l).Elem())
	if err == nil {
		err = l.Check()
	}
	if err != nil {
		return err
	}
	for i := range *limits {
		if (*limits)[i].Name == l.Name {
			return Errorf(CodeInvalidLimit, "name", "%q is named twice", l.Name)
		}
	}
	*limits = append(*limits, l)
	return nil
}

// metadata reads an object of strings; it is not nil.
func (d *decoding) metadata(dec *jsontext.Decoder, into *map[string]string) error {
	if _, err := dec.ReadToken(); err != nil {
		return err
	}
	entries := make(map[string]string)
	for dec.PeekKind() != '}' {
		name, err := dec.ReadToken()
		if err != nil {
			return err
		}
		key := name.String()
		if len(entries) == MaxMetadata {
			return within("metadata", within(key, Errorf(CodeInvalidMetadata, "", "at most %d entries are allowed", MaxMetadata)))
		}
		var value string
		if err := json.UnmarshalDecode(dec, &value); err != nil {
			return err
		}
		entries[key] = value
	}
	*into = entries
	_, err := dec.ReadToken()
	return err
}

// where returns the path of the value that is read next.
func (d *decoding) where(dec *jsontext.Decoder) string {
	p := dec.StackPointer()
	kind, n := dec.StackIndex(dec.StackDepth())
	if kind != '[' {
		return path(p)
	}
	if n > 0 {
		p = p.Parent() // the pointer names the element that was read last
	}
	return path(p.AppendToken(strconv.FormatInt(n, 10)))
}

// colon reports whether a value is next: in an object, ':' comes before it.
func (d *decoding) colon(dec *jsontext.Decoder) bool {
	kind, _ := dec.StackIndex(dec.StackDepth())
	return kind != '{' || rest(dec, ':')
}

// rest reports whether the input goes on with a byte, after white space.
func rest(dec *jsontext.Decoder, next byte) bool {
	unread := bytes.TrimLeft(dec.UnreadBuffer(), spaces)
	return len(unread) > 0 && unread[0] == next
}

// rule returns the rule of the field that is read next.
func (d *decoding) rule(dec *jsontext.Decoder) rule {
	depth := dec.StackDepth()
	if depth == 0 || d.structs[depth-1] == nil {
		return rule{}
	}
	name := dec.StackPointer().LastToken()
	for _, m := range members(d.structs[depth-1]) {
		if m.name == name {
			return m.rule
		}
	}
	return rule{}
}

// asError turns an error of the library into an *Error with the same meaning as the errors of
// the other verbs' reader.
func (d *decoding) asError(payload []byte, err error) error {
	if refused, ok := errors.AsType[*Error](err); ok {
		return refused
	}
	if syntax, ok := errors.AsType[*jsontext.SyntacticError](err); ok {
		where := path(syntax.JSONPointer)
		if errors.Is(err, jsontext.ErrDuplicateName) {
			return Errorf(CodeMalformedJSON, where, "occurs twice in its object")
		}
		return Errorf(CodeMalformedJSON, where, "at byte %d: %v", syntax.ByteOffset, syntax.Err)
	}
	if semantic, ok := errors.AsType[*json.SemanticError](err); ok && errors.Is(err, json.ErrUnknownName) {
		name := jsontext.NewDecoder(bytes.NewReader(payload[semantic.ByteOffset:]))
		if err := name.SkipValue(); err == nil && !rest(name, ':') {
			return Errorf(CodeMalformedJSON, path(semantic.JSONPointer.Parent()), "':' should follow %q", cut(semantic.JSONPointer.LastToken()))
		}
		return within(path(semantic.JSONPointer), unknown(d.known(semantic.JSONPointer)))
	}
	return Errorf(CodeMalformedJSON, "", "%v", err)
}

// known lists the fields of the struct that a pointer's last field is not in.
func (d *decoding) known(p jsontext.Pointer) string {
	depth := -1
	for range p.Tokens() {
		depth++
	}
	var names []string
	for _, m := range members(d.structs[depth]) {
		names = append(names, m.name)
	}
	return strings.Join(names, ", ")
}

// path writes a JSON pointer as errors show it: "limits[1].capacity".
func path(p jsontext.Pointer) string {
	names := slices.Collect(p.Tokens())
	if len(names) > 1 && names[0] == "limits" {
		names[1] = "[" + names[1] + "]"
	}
	joined := ""
	for _, name := range slices.Backward(names) {
		joined = join(name, joined)
	}
	return joined
}
