package config

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
)

// fingerprintBytes is the length of the hash that is kept: 8 bytes are 11
// characters. Only successive settings of the same bucket are compared, so 64 bits
// are plenty.
const fingerprintBytes = 8

// Fingerprint returns 11 characters that identify the limits, cascade, parent and
// permanence of r. Items store it: the same settings must give the same characters
// on every node and in every release.
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

// appendText writes the length first, so that different sequences of texts have
// different bytes.
func appendText(b []byte, s string) []byte {
	return append(binary.AppendUvarint(b, uint64(len(s))), s...)
}

func appendBool(b []byte, v bool) []byte {
	if v {
		return append(b, 1)
	}
	return append(b, 0)
}
