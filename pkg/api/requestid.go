package api

import (
	"encoding/base64"
	"encoding/binary"
	"math/rand/v2"
)

// MaxRequestID is the maximum length of a request id in characters: longer than a UUID
// or a trace id, and short enough for a log line.
const MaxRequestID = 64

// NewRequestID returns a new request id: 16 characters, of 96 random bits.
func NewRequestID() string {
	var raw [12]byte
	binary.LittleEndian.PutUint64(raw[:], rand.Uint64())
	binary.LittleEndian.PutUint32(raw[8:], rand.Uint32())
	var text [16]byte
	return string(base64.RawURLEncoding.AppendEncode(text[:0], raw[:]))
}

// IsRequestID reports whether a text can be a request id: letters, digits and
// `_ . : / + = @ -`, 1 to [MaxRequestID] of them, so that it is safe in any context.
func IsRequestID(id string) bool {
	if id == "" || len(id) > MaxRequestID {
		return false
	}
	for i := range len(id) {
		switch c := id[i]; {
		case c >= 'a' && c <= 'z', c >= 'A' && c <= 'Z', c >= '0' && c <= '9':
		case c == '_', c == '.', c == ':', c == '/', c == '+', c == '=', c == '@', c == '-':
		default:
			return false
		}
	}
	return true
}
