package config

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
)

// fingerprintBytes is how much of the hash is kept: 8 bytes are 11 characters.
// Only settings that one bucket has one after the other can be mistaken for
// each other, so that 64 bits are plenty.
const fingerprintBytes = 8

// Fingerprint is 11 characters that stand for the limits, cascade, parent and
// permanence of r, and for nothing else of it. Stored items carry it: the same
// settings must give the same characters on every node and in every release.
func Fingerprint(r *Resolved) string {
	b := make([]byte, 0, 256)
	b = binary.AppendUvarint(b, uint64(len(r.Limits)))
	for _, l := range r.Limits {
		b = appendText(b, l.Name)
		b = binary.AppendVarint(b, l.Capacity)
		b = binary.AppendVarint(b, l.Refill)
		b = binary.AppendVarint(b, l.Period)
	}
	b = appendBool(b, r.Cascade)
	b = appendText(b, r.Parent)
	b = appendBool(b, r.Permanent)
	sum := sha256.Sum256(b)
	return base64.RawURLEncoding.EncodeToString(sum[:fingerprintBytes])
}

// appendText writes the length first, so that no two sequences of texts are the
// same bytes.
func appendText(b []byte, s string) []byte {
	return append(binary.AppendUvarint(b, uint64(len(s))), s...)
}

func appendBool(b []byte, v bool) []byte {
	if v {
		return append(b, 1)
	}
	return append(b, 0)
}
