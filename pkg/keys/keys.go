package keys

import (
	"encoding/base64"
	"fmt"
	"io"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

const (
	// Registry is the namespace of items that belong to no tenant.
	Registry = "_"

	// DefaultResource is the resource name under which an entity's config for
	// all its resources is stored. It is reserved: users cannot enter it.
	DefaultResource = "_default_"

	// AuditSystem is the audit id of changes to a namespace's system level.
	AuditSystem = "$SYSTEM"

	// AuditLeaseKeys is the audit id, in the registry, of changes to the keys that
	// sign leases.
	AuditLeaseKeys = "$LEASE_KEYS"

	// Spread is the number of partitions of GSI2 and GSI4 that items are distributed over.
	Spread = 16
)

const (
	maxName     = 256 // bytes; the longest entity or resource that the edge admits
	maxPart     = 320 // bytes; a name with the fingerprint of an override, or as an audit id
	namespaceID = 11  // characters: 8 bytes in base64 without padding
)

// Key is the primary key of an item, or of its row in an index.
type Key struct{ PK, SK string }

// Indexes holds the keys of an item in the indexes; nil if the index does not list
// the item.
type Indexes struct{ GSI1, GSI2, GSI3, GSI4 *Key }

// Item is implemented by the kinds of items of this package only.
type Item interface {
	// Key returns the item's primary key. It is meaningful only if the item is valid.
	Key() Key
	// Indexes returns the keys under which the indexes list the item.
	Indexes() Indexes
	// Valid reports whether every part of the item is allowed in a key.
	Valid() bool
}

// NewNamespaceID returns the id of a new namespace, from 8 random bytes of r.
func NewNamespaceID(r io.Reader) (string, error) {
	var b [8]byte
	if _, err := io.ReadFull(r, b[:]); err != nil {
		return "", fmt.Errorf("make a namespace id: %w", err)
	}
	return base64.RawURLEncoding.EncodeToString(b[:]), nil
}

// ValidNamespaceID reports whether id has the form of an id from NewNamespaceID.
// The registry's id does not.
func ValidNamespaceID(id string) bool {
	if len(id) != namespaceID {
		return false
	}
	for i := range namespaceID {
		if sextet(id[i]) < 0 {
			return false
		}
	}
	// 11 characters carry 66 bits, of which an id has 64: the last two are zero.
	return sextet(id[namespaceID-1])&0b11 == 0
}

// sextet returns the value of a character of URL-safe base64, −1 for any other.
func sextet(c byte) int {
	switch {
	case 'A' <= c && c <= 'Z':
		return int(c - 'A')
	case 'a' <= c && c <= 'z':
		return int(c-'a') + 26
	case '0' <= c && c <= '9':
		return int(c-'0') + 52
	case c == '-':
		return 62
	case c == '_':
		return 63
	}
	return -1
}

// validNamespace is ValidNamespaceID, but accepts the registry's id too.
func validNamespace(id string) bool { return id == Registry || ValidNamespaceID(id) }

// validPart reports whether s is allowed between the separators of a key as it is:
// printable ASCII without space and '#', 1 to maxPart bytes.
func validPart(s string) bool {
	if s == "" || len(s) > maxPart {
		return false
	}
	for i := range len(s) {
		if s[i] <= ' ' || s[i] > '~' || s[i] == '#' {
			return false
		}
	}
	return true
}

// A name is an entity, a resource or an audit id: any printable text. Two printable
// characters have a meaning in keys. A key holds a control character, which no name has, in
// their place. So an escaped name is as long as the name: the keys of two long names fit
// the 1,024 bytes that DynamoDB allows for a sort key.
const (
	separator        = '#'    // of the parts of a key
	escapedSeparator = '\x01' // stands in a key for the character '#' of a name

	tilde       = '~'    // stands in a key between a resource and a fingerprint
	overrideCut = '\x02' // stands in a resource between its name and a fingerprint, and in a key for the character '~' of a name
)

// escape returns the form of a name in keys. It is its own inverse. Names without the two
// special characters stay as they are.
func escape(name string) string {
	if !strings.ContainsAny(name, "#~\x01\x02") {
		return name
	}
	return strings.Map(func(c rune) rune {
		switch c {
		case separator:
			return escapedSeparator
		case escapedSeparator:
			return separator
		case tilde:
			return overrideCut
		case overrideCut:
			return tilde
		}
		return c
	}, name)
}

// validName reports whether s is allowed as an entity or an audit id: printable UTF-8, 1 to
// longest bytes.
func validName(s string, longest int) bool {
	if s == "" || len(s) > longest || !utf8.ValidString(s) {
		return false
	}
	for _, c := range s {
		if !unicode.IsPrint(c) {
			return false
		}
	}
	return true
}

// validResource reports whether s is a resource's name, or that of an override of it.
func validResource(s string) bool {
	if name, fingerprint, ok := ParseOverride(s); ok {
		return validName(name, maxName) && validPart(fingerprint) && len(s) <= maxPart
	}
	return validName(s, maxName)
}

// spread returns the index partition of s: 64-bit FNV-1a mod Spread, as text.
// hash/fnv computes the same hash, but allocates.
func spread(s string) string {
	const offset, prime = 14695981039346656037, 1099511628211
	h := uint64(offset)
	for i := range len(s) {
		h = (h ^ uint64(s[i])) * prime
	}
	return strconv.FormatUint(h%Spread, 10)
}

// everything returns the GSI4 key of an item. Its sort key starts with the kind, so
// that a purge or a listing can select the items of a single kind in a namespace.
func everything(namespace string, table Key, sk string) *Key {
	return &Key{PK: namespace + "#" + spread(table.PK), SK: sk}
}

// OverrideResource names the bucket of requests that supply their own limits
// for a resource; fingerprint is the fingerprint of these limits. Users cannot
// enter the name, because it contains a control character.
func OverrideResource(resource, fingerprint string) string {
	return resource + string(overrideCut) + fingerprint
}

// ResourceText is a resource for people: of an override, its name, '~' and the fingerprint.
func ResourceText(resource string) string {
	return strings.Replace(resource, string(overrideCut), string(tilde), 1)
}

// ParseOverride splits the name of an override bucket into resource and fingerprint;
// ok is false for any other resource.
func ParseOverride(name string) (resource, fingerprint string, ok bool) {
	resource, fingerprint, ok = strings.Cut(name, string(overrideCut))
	if !ok || resource == "" || fingerprint == "" {
		return "", "", false
	}
	return resource, fingerprint, true
}
