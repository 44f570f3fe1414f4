package keys

import (
	"encoding/base64"
	"fmt"
	"io"
	"strconv"
	"strings"
)

const (
	// Registry is the namespace of items that belong to no tenant.
	Registry = "_"

	// DefaultResource is the resource name under which an entity's config for
	// all its resources is stored. Users cannot enter it, because a resource
	// starts with a letter.
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
	maxPart     = 256 // bytes; the longest identifier that the edge admits
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

// validPart reports whether s is allowed between the separators of a key: printable
// ASCII without space and '#', 1 to maxPart bytes.
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
// enter the name, because a resource's name never contains '~'.
func OverrideResource(resource, fingerprint string) string {
	return resource + "~" + fingerprint
}

// ParseOverride splits the name of an override bucket into resource and fingerprint;
// ok is false for any other resource.
func ParseOverride(name string) (resource, fingerprint string, ok bool) {
	resource, fingerprint, ok = strings.Cut(name, "~")
	if !ok || resource == "" || fingerprint == "" {
		return "", "", false
	}
	return resource, fingerprint, true
}
