package attr

import (
	"encoding/base64"
	"errors"
	"unicode/utf8"
)

// AppendJSON appends the value in DynamoDB JSON, such as {"S":"x"}. It writes the
// zero Value, which has no JSON form, as null.
func (v Value) AppendJSON(dst []byte) []byte {
	if v.kind == 0 {
		return append(dst, "null"...)
	}
	dst = append(dst, '{', '"')
	dst = append(dst, v.kind.String()...)
	dst = append(dst, '"', ':')
	return append(v.appendContent(dst), '}')
}

func (v Value) appendContent(dst []byte) []byte {
	switch v.kind {
	case KindS:
		return appendString(dst, v.text)
	case KindN:
		return append(v.Number().append(append(dst, '"')), '"')
	case KindB:
		dst = base64.StdEncoding.AppendEncode(append(dst, '"'), []byte(v.text))
		return append(dst, '"')
	case KindBOOL:
		if !v.flag {
			return append(dst, "false"...)
		}
	case KindNULL:
	case KindSS, KindNS, KindBS:
		return appendArray(dst, v.nested.elems, Value.appendContent)
	case KindL:
		return appendArray(dst, v.nested.elems, Value.AppendJSON)
	case KindM:
		return v.nested.fields.AppendJSON(dst)
	}
	return append(dst, "true"...)
}

func appendArray(dst []byte, elems []Value, appendOne func(Value, []byte) []byte) []byte {
	dst = append(dst, '[')
	for i, e := range elems {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = appendOne(e, dst)
	}
	return append(dst, ']')
}

// AppendJSON appends the item in DynamoDB JSON, with the names in no particular
// order. It writes a nil item like an empty item.
func (it Item) AppendJSON(dst []byte) []byte {
	dst = append(dst, '{')
	first := true
	for name, v := range it {
		if !first {
			dst = append(dst, ',')
		}
		first = false
		dst = append(appendString(dst, name), ':')
		dst = v.AppendJSON(dst)
	}
	return append(dst, '}')
}

// MarshalJSON implements [json.Marshaler]. It fails for the zero Value.
func (v Value) MarshalJSON() ([]byte, error) {
	if v.kind == 0 {
		return nil, errors.New("an attribute value without a kind has no JSON form")
	}
	return v.AppendJSON(nil), nil
}

// MarshalJSON implements [json.Marshaler].
func (it Item) MarshalJSON() ([]byte, error) { return it.AppendJSON(nil), nil }

// appendString writes a JSON string. Bytes that are not UTF-8 become U+FFFD.
func appendString(dst []byte, s string) []byte {
	const hex = "0123456789abcdef"
	dst = append(dst, '"')
	from := 0
	for i := 0; i < len(s); {
		c := s[i]
		if c < utf8.RuneSelf {
			if c >= ' ' && c != '"' && c != '\\' {
				i++
				continue
			}
			dst = append(dst, s[from:i]...)
			if c == '"' || c == '\\' {
				dst = append(dst, '\\', c)
			} else {
				dst = append(dst, '\\', 'u', '0', '0', hex[c>>4], hex[c&15])
			}
			i++
			from = i
			continue
		}
		r, size := utf8.DecodeRuneInString(s[i:])
		if r == utf8.RuneError && size == 1 {
			dst = append(dst, s[from:i]...)
			dst = append(dst, "\ufffd"...)
			from = i + 1
		}
		i += size
	}
	dst = append(dst, s[from:]...)
	return append(dst, '"')
}
