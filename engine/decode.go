package engine

import (
	"bytes"
	"encoding/json"
	"strconv"
)

// maxDepth bounds the nesting of JSON, so that a hostile request cannot exhaust the
// stack. DynamoDB documents nest at most 32 levels, with two JSON objects each.
const maxDepth = 200

// eachField calls visit with every field of the JSON object raw, in order. The
// values are checked sub-slices of raw. It skips null fields, which DynamoDB treats as
// absent. Errors are SerializationExceptions.
func eachField(raw []byte, visit func(name, value []byte) error) error {
	s := scanner{src: raw}
	s.space()
	if !s.take('{') {
		return serialization("expected a JSON object at byte %d", s.at)
	}
	if err := s.members(1, visit); err != nil {
		return err
	}
	return s.end()
}

// eachElement calls visit with every element of a JSON array, like eachField.
func eachElement(raw []byte, visit func(value []byte) error) error {
	s := scanner{src: raw}
	s.space()
	if !s.take('[') {
		return serialization("expected a JSON array at byte %d", s.at)
	}
	if err := s.elements(1, visit); err != nil {
		return err
	}
	return s.end()
}

// decodeText reads a JSON string.
func decodeText(raw []byte, into *string) error {
	if len(raw) < 2 || raw[0] != '"' {
		return serialization("expected a JSON string, got %s", excerpt(raw))
	}
	if bytes.IndexByte(raw, '\\') < 0 {
		*into = string(raw[1 : len(raw)-1])
		return nil
	}
	if err := json.Unmarshal(raw, into); err != nil {
		return serialization("ill-formed JSON string %s", excerpt(raw))
	}
	return nil
}

// decodeBool reads a JSON boolean.
func decodeBool(raw []byte, into *bool) error {
	switch string(raw) {
	case "true":
		*into = true
	case "false":
		*into = false
	default:
		return serialization("expected true or false, got %s", excerpt(raw))
	}
	return nil
}

// decodeInt reads a JSON number without a fraction.
func decodeInt(raw []byte, into *int) error {
	n, err := strconv.Atoi(string(raw))
	if err != nil {
		return serialization("expected an integer, got %s", excerpt(raw))
	}
	*into = n
	return nil
}

// decodeNames reads a JSON object of strings.
func decodeNames(raw []byte, into *map[string]string) error {
	m := make(map[string]string, 16)
	*into = m
	return eachField(raw, func(name, value []byte) error {
		var key, text string
		if err := decodeKey(name, &key); err != nil {
			return err
		}
		if err := decodeText(value, &text); err != nil {
			return err
		}
		m[key] = text
		return nil
	})
}

// decodeKey reads an object's field name: the bytes between the quotes.
func decodeKey(name []byte, into *string) error {
	if bytes.IndexByte(name, '\\') < 0 {
		*into = string(name)
		return nil
	}
	quoted := append(append([]byte{'"'}, name...), '"')
	return decodeText(quoted, into)
}

// excerpt shortens a JSON value for an error message.
func excerpt(raw []byte) string {
	const most = 40
	if len(raw) > most {
		return string(raw[:most]) + "..."
	}
	return string(raw)
}

// scanner walks a JSON text and checks its syntax.
type scanner struct {
	src []byte
	at  int
}

func (s *scanner) space() {
	for s.at < len(s.src) {
		switch s.src[s.at] {
		case ' ', '\t', '\r', '\n':
			s.at++
		default:
			return
		}
	}
}

func (s *scanner) take(c byte) bool {
	if s.at < len(s.src) && s.src[s.at] == c {
		s.at++
		return true
	}
	return false
}

// end refuses text behind the value.
func (s *scanner) end() error {
	if s.space(); s.at != len(s.src) {
		return s.unexpected()
	}
	return nil
}

func (s *scanner) unexpected() error {
	if s.at >= len(s.src) {
		return serialization("unexpected end of the JSON text")
	}
	return serialization("unexpected character %q at byte %d", s.src[s.at], s.at)
}

// members walks an object behind its opening brace.
func (s *scanner) members(depth int, visit func(name, value []byte) error) error {
	if s.space(); s.take('}') {
		return nil
	}
	for {
		s.space()
		begin := s.at
		if err := s.text(); err != nil {
			return err
		}
		name := s.src[begin+1 : s.at-1]
		if s.space(); !s.take(':') {
			return s.unexpected()
		}
		s.space()
		begin = s.at
		if err := s.skip(depth); err != nil {
			return err
		}
		if value := s.src[begin:s.at]; visit != nil && string(value) != "null" {
			if err := visit(name, value); err != nil {
				return err
			}
		}
		if s.space(); s.take('}') {
			return nil
		}
		if !s.take(',') {
			return s.unexpected()
		}
	}
}

// elements walks an array behind its opening bracket.
func (s *scanner) elements(depth int, visit func(value []byte) error) error {
	if s.space(); s.take(']') {
		return nil
	}
	for {
		s.space()
		begin := s.at
		if err := s.skip(depth); err != nil {
			return err
		}
		if visit != nil {
			if err := visit(s.src[begin:s.at]); err != nil {
				return err
			}
		}
		if s.space(); s.take(']') {
			return nil
		}
		if !s.take(',') {
			return s.unexpected()
		}
	}
}

// skip skips a value.
func (s *scanner) skip(depth int) error {
	if depth > maxDepth {
		return serialization("JSON nested deeper than %d levels", maxDepth)
	}
	if s.at >= len(s.src) {
		return s.unexpected()
	}
	switch c := s.src[s.at]; {
	case c == '{':
		s.at++
		return s.members(depth+1, nil)
	case c == '[':
		s.at++
		return s.elements(depth+1, nil)
	case c == '"':
		return s.text()
	case c == 't':
		return s.literal("true")
	case c == 'f':
		return s.literal("false")
	case c == 'n':
		return s.literal("null")
	case c == '-' || c >= '0' && c <= '9':
		return s.number()
	}
	return s.unexpected()
}

func (s *scanner) literal(word string) error {
	if !bytes.HasPrefix(s.src[s.at:], []byte(word)) {
		return s.unexpected()
	}
	s.at += len(word)
	return nil
}

func (s *scanner) number() error {
	begin := s.at
	for s.at < len(s.src) && bytes.IndexByte([]byte("+-.0123456789eE"), s.src[s.at]) >= 0 {
		s.at++
	}
	if !json.Valid(s.src[begin:s.at]) {
		return serialization("ill-formed number %s", excerpt(s.src[begin:s.at]))
	}
	return nil
}

// text skips a string. Its escapes are checked when the string is decoded.
func (s *scanner) text() error {
	if !s.take('"') {
		return s.unexpected()
	}
	for s.at < len(s.src) {
		switch c := s.src[s.at]; {
		case c == '"':
			s.at++
			return nil
		case c == '\\':
			s.at += 2
		case c < ' ':
			return s.unexpected()
		default:
			s.at++
		}
	}
	s.at = len(s.src)
	return s.unexpected()
}
