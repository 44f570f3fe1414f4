package api

import (
	"errors"
	"strconv"
	"strings"
	"unicode/utf8"
)

// reader reads a single JSON value strictly: it refuses trailing data, repeated
// fields and unexpected types. encoding/json cannot do these checks cheaply, and
// takes about four times as long for an acquire.
//
// Its methods read the next value and fail with an *Error whose Field is relative
// to that value; object and array complete the path on the way out.
type reader struct {
	text    string // a copy of the payload; the strings read are parts of it
	pos     int
	clone   bool // the strings read are copied, since a single retained name would keep all of text alive
	lenient bool // replies: fields may repeat, so no time is spent on noticing
}

// maxShared is the length, in bytes, of the longest request with uncloned strings.
const maxShared = 256

// maxDepth bounds the nesting of values that are skipped.
const maxDepth = 32

// open starts on a request.
func open(payload []byte) (reader, error) {
	if len(payload) > MaxPayload {
		return reader{}, Errorf(CodePayloadTooLarge, "", "the request has %d bytes; at most %d are allowed", len(payload), MaxPayload)
	}
	return reader{text: string(payload), clone: len(payload) > maxShared}, nil
}

// next skips white space and gives the byte that follows, 0 at the end.
func (r *reader) next() byte {
	for r.pos < len(r.text) {
		switch c := r.text[r.pos]; c {
		case ' ', '\t', '\n', '\r':
			r.pos++
		default:
			return c
		}
	}
	return 0
}

// take consumes the next byte if it is c.
func (r *reader) take(c byte) bool {
	if r.next() == c && r.pos < len(r.text) {
		r.pos++
		return true
	}
	return false
}

func (r *reader) malformed(expected string) error {
	if r.pos >= len(r.text) {
		return Errorf(CodeMalformedJSON, "", "the JSON ends at byte %d, where %s should follow", r.pos, expected)
	}
	found := r.text[r.pos:min(len(r.text), r.pos+utf8.UTFMax)]
	_, size := utf8.DecodeRuneInString(found)
	return Errorf(CodeMalformedJSON, "", "at byte %d, %s should follow, not %q", r.pos, expected, found[:size])
}

// wrongType refuses the next value: for its type, or as malformed if it is not JSON.
func (r *reader) wrongType(want string) error {
	var is string
	switch c := r.next(); {
	case c == '{':
		is = "an object"
	case c == '[':
		is = "an array"
	case c == '"':
		is = "a string"
	case c == '-' || '0' <= c && c <= '9':
		is = "a number"
	case c == 't' && r.word("true"), c == 'f' && r.word("false"):
		is = "a boolean"
	case c == 'n' && r.word("null"):
		is = "null"
	default:
		return r.malformed(want)
	}
	return Errorf(CodeWrongType, "", "must be %s, not %s", want, is)
}

// word consumes a literal.
func (r *reader) word(w string) bool {
	if !strings.HasPrefix(r.text[r.pos:], w) {
		return false
	}
	r.pos += len(w)
	return true
}

// end makes sure that nothing follows.
func (r *reader) end() error {
	if r.next(); r.pos < len(r.text) {
		return r.malformed("the end of the request")
	}
	return nil
}

// object reads an object; member is called for each name and reads its value.
func (r *reader) object(member func(name string) error) error {
	if r.next() != '{' {
		return r.wrongType("an object")
	}
	r.pos++
	if r.take('}') {
		return nil
	}
	var seen [2 * MaxLimits]string // member fails before there are as many
	for n := 0; ; n++ {
		if r.next() != '"' {
			return r.malformed("a field name")
		}
		name, err := r.str()
		if err != nil {
			return err
		}
		if !r.take(':') {
			return r.malformed("':'")
		}
		if !r.lenient && n < len(seen) {
			for _, other := range seen[:n] {
				if other == name {
					return Errorf(CodeMalformedJSON, cut(name), "occurs twice in its object")
				}
			}
			seen[n] = name
		}
		if err := member(name); err != nil {
			return within(name, err)
		}
		if r.take('}') {
			return nil
		}
		if !r.take(',') {
			return r.malformed("',' or '}'")
		}
	}
}

// array reads an array; element is called for each index and reads its value.
func (r *reader) array(element func(i int) error) error {
	if r.next() != '[' {
		return r.wrongType("an array")
	}
	r.pos++
	if r.take(']') {
		return nil
	}
	for i := 0; ; i++ {
		if err := element(i); err != nil {
			return within("["+strconv.Itoa(i)+"]", err)
		}
		if r.take(']') {
			return nil
		}
		if !r.take(',') {
			return r.malformed("',' or ']'")
		}
	}
}

// within puts the name of an object's member, or "[i]", before the field of an
// error of this package.
func within(name string, err error) error {
	e, ok := errors.AsType[*Error](err)
	if !ok {
		return err
	}
	e.Field = join(name, e.Field)
	return e
}

// join puts the name of an object's member, or "[i]", before a path.
func join(name, path string) string {
	name = cut(name)
	switch {
	case path == "":
		return name
	case path[0] == '[':
		return name + path
	}
	return name + "." + path
}

// unknown refuses a member of an object that has only the known ones.
func unknown(known string) error {
	if known == "" {
		return Errorf(CodeUnknownField, "", "this verb takes no fields")
	}
	return Errorf(CodeUnknownField, "", "unknown field; the fields of this request are: %s", known)
}

// str reads a string.
func (r *reader) str() (string, error) {
	if r.next() != '"' {
		return "", r.wrongType("a string")
	}
	r.pos++
	start := r.pos
	for r.pos < len(r.text) {
		switch c := r.text[r.pos]; {
		case c == '"':
			s := r.text[start:r.pos]
			r.pos++
			if r.clone {
				s = strings.Clone(s)
			}
			return s, nil
		case c == '\\' || c >= utf8.RuneSelf:
			return r.longStr(start)
		case c < ' ':
			return "", r.malformed("a character of a string")
		}
		r.pos++
	}
	return "", r.malformed("the end of a string")
}

// longStr goes on with a string, begun at start, that has escapes or characters
// beyond ASCII.
func (r *reader) longStr(start int) (string, error) {
	s := []byte(r.text[start:r.pos])
	for r.pos < len(r.text) {
		c, size := utf8.DecodeRuneInString(r.text[r.pos:])
		switch {
		case c == '"':
			r.pos++
			return string(s), nil
		case c == '\\':
			e, err := r.escape()
			if err != nil {
				return "", err
			}
			s = utf8.AppendRune(s, e)
			continue
		case c < ' ' || c == utf8.RuneError && size == 1:
			return "", r.malformed("a character of a string")
		}
		s = append(s, r.text[r.pos:r.pos+size]...)
		r.pos += size
	}
	return "", r.malformed("the end of a string")
}

// escape reads an escape sequence, or both sequences of a surrogate pair.
func (r *reader) escape() (rune, error) {
	if r.pos+1 >= len(r.text) {
		r.pos = len(r.text)
		return 0, r.malformed("an escape")
	}
	const names, runes = `"\/bfnrt`, "\"\\/\b\f\n\r\t"
	if i := strings.IndexByte(names, r.text[r.pos+1]); i >= 0 {
		r.pos += 2
		return rune(runes[i]), nil
	}
	high, ok := r.unicode()
	if !ok {
		return 0, r.malformed("an escape")
	}
	if high < 0xD800 || high > 0xDFFF {
		return high, nil
	}
	low, ok := r.unicode()
	if !ok || high > 0xDBFF || low < 0xDC00 || low > 0xDFFF {
		return 0, r.malformed("the other half of a surrogate pair")
	}
	return (high-0xD800)<<10 + (low - 0xDC00) + 0x10000, nil
}

// unicode consumes an escape such as \u00e9.
func (r *reader) unicode() (rune, bool) {
	const length = len(`\u00e9`)
	if r.pos+length > len(r.text) || r.text[r.pos:r.pos+2] != `\u` {
		return 0, false
	}
	// ParseUint takes no sign; that it takes '_' only with base 0 is documented.
	v, err := strconv.ParseUint(r.text[r.pos+2:r.pos+length], 16, 16)
	if err != nil {
		return 0, false
	}
	r.pos += length
	return rune(v), true
}

// boolean reads true or false.
func (r *reader) boolean() (bool, error) {
	switch {
	case r.next() == 't' && r.word("true"):
		return true, nil
	case r.next() == 'f' && r.word("false"):
		return false, nil
	}
	return false, r.wrongType("a boolean")
}

// integer reads a whole number of [lowest, highest]. It refuses a number out of
// range, or written with a fraction or exponent, with the given code.
func (r *reader) integer(code Code, lowest, highest int64) (int64, error) {
	if c := r.next(); c != '-' && (c < '0' || c > '9') {
		return 0, r.wrongType("a number")
	}
	start := r.pos
	if err := r.number(); err != nil {
		return 0, err
	}
	return wholeNumber(r.text[start:r.pos], code, lowest, highest)
}

// wholeNumber parses a JSON number of [lowest, highest], written in digits alone.
func wholeNumber(text string, code Code, lowest, highest int64) (int64, error) {
	if strings.ContainsAny(text, ".eE") {
		return 0, Errorf(code, "", "%s must be a whole number, written in digits alone", cut(text))
	}
	v, err := strconv.ParseInt(text, 10, 64)
	if err != nil || v < lowest || v > highest {
		return 0, Errorf(code, "", "%s must be a whole number from %d to %d", cut(text), lowest, highest)
	}
	return v, nil
}

// number consumes a number.
func (r *reader) number() error {
	if r.pos < len(r.text) && r.text[r.pos] == '-' {
		r.pos++
	}
	zero := r.pos < len(r.text) && r.text[r.pos] == '0'
	if n := r.digits(); n == 0 || zero && n > 1 {
		return r.malformed("a number without leading zeros")
	}
	if r.pos < len(r.text) && r.text[r.pos] == '.' {
		r.pos++
		if r.digits() == 0 {
			return r.malformed("a digit")
		}
	}
	if r.pos < len(r.text) && r.text[r.pos]|0x20 == 'e' {
		r.pos++
		if r.pos < len(r.text) && (r.text[r.pos] == '+' || r.text[r.pos] == '-') {
			r.pos++
		}
		if r.digits() == 0 {
			return r.malformed("a digit")
		}
	}
	return nil
}

// digits consumes digits and counts them.
func (r *reader) digits() int {
	start := r.pos
	for r.pos < len(r.text) && '0' <= r.text[r.pos] && r.text[r.pos] <= '9' {
		r.pos++
	}
	return r.pos - start
}

// skip consumes any value.
func (r *reader) skip(depth int) error {
	if depth > maxDepth {
		return Errorf(CodeMalformedJSON, "", "values are nested more than %d deep", maxDepth)
	}
	var err error
	switch c := r.next(); {
	case c == '{':
		err = r.object(func(string) error { return r.skip(depth + 1) })
	case c == '[':
		err = r.array(func(int) error { return r.skip(depth + 1) })
	case c == '"':
		_, err = r.str()
	case c == '-' || '0' <= c && c <= '9':
		err = r.number()
	default:
		if !r.word("true") && !r.word("false") && !r.word("null") {
			return r.malformed("a value")
		}
	}
	return err
}
