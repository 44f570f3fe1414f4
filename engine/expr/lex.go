package expr

import "strings"

// maxSource is the maximum length of an expression, in bytes.
const maxSource = 4096

// tokenKind distinguishes names from symbols; the text of a symbol identifies it.
type tokenKind uint8

const (
	tokenSymbol     tokenKind = iota
	tokenIdentifier           // a1
	tokenName                 // #a1
	tokenValue                // :a1
	tokenIndex                // 12
	tokenEnd
	tokenUnknown // a character that begins no token
)

// token is the part of the source between the bytes from and to.
type token struct {
	kind     tokenKind
	text     string
	from, to int
}

// lex splits the source into tokens and appends an end token. A character that is
// never valid is a token too: the parser reports it when it gets there.
func lex(src string) []token {
	tokens := make([]token, 0, len(src)/3+2)
	for at := 0; at < len(src); {
		if strings.IndexByte(" \t\r\n", src[at]) >= 0 {
			at++
			continue
		}
		kind, size := scan(src[at:])
		tokens = append(tokens, token{kind: kind, text: src[at : at+size], from: at, to: at + size})
		at += size
	}
	return append(tokens, token{kind: tokenEnd, text: "<EOF>", from: len(src), to: len(src)})
}

// scan returns the kind and size of the token at the start of src.
func scan(src string) (tokenKind, int) {
	c := src[0]
	switch {
	case isLetter(c):
		return tokenIdentifier, 1 + wordSize(src[1:])
	case isDigit(c):
		size := 1
		for size < len(src) && isDigit(src[size]) {
			size++
		}
		return tokenIndex, size
	case c == '#' || c == ':':
		size := 1 + wordSize(src[1:])
		if size == 1 {
			return tokenUnknown, 1
		}
		if c == '#' {
			return tokenName, size
		}
		return tokenValue, size
	case len(src) > 1 && (src[:2] == "<>" || src[:2] == "<=" || src[:2] == ">="):
		return tokenSymbol, 2
	case strings.IndexByte("=<>()[],.+-", c) >= 0:
		return tokenSymbol, 1
	}
	return tokenUnknown, 1
}

// wordSize returns the number of letters, digits and underscores at the start of
// src.
func wordSize(src string) int {
	size := 0
	for size < len(src) && (isLetter(src[size]) || isDigit(src[size]) || src[size] == '_') {
		size++
	}
	return size
}

func isLetter(c byte) bool { return c|0x20 >= 'a' && c|0x20 <= 'z' }
func isDigit(c byte) bool  { return c >= '0' && c <= '9' }
