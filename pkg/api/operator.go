package api

import (
	"encoding/base64"
	"strings"
)

// OperatorNamespace takes the namespace's place in the subjects of operator verbs,
// on namespaces and on lease keys, which belong to no tenant. It is not a valid
// namespace name, so that a tenant's permissions never cover it.
const OperatorNamespace = "_"

// ForOperators reports whether a verb is served only under OperatorNamespace.
func (v Verb) ForOperators() bool {
	return strings.HasPrefix(string(v), "admin.namespace.") || strings.HasPrefix(string(v), "admin.key.")
}

// ServedIn reports whether a verb is served in a namespace. The audit verbs are
// served in OperatorNamespace as in any other.
func (v Verb) ServedIn(namespace string) bool {
	if strings.HasPrefix(string(v), "admin.audit.") {
		return true
	}
	return v.ForOperators() == (namespace == OperatorNamespace)
}

// NamespaceState is a namespace's stage of life.
type NamespaceState string

// The states. Only an active namespace serves requests.
const (
	NamespaceActive  NamespaceState = "active"
	NamespaceDeleted NamespaceState = "deleted" // kept whole: recover brings it back, purge removes it
	NamespacePurging NamespaceState = "purging" // a purge has begun: it can only be finished
)

// Namespace describes a namespace to operators. Times are Unix milliseconds.
type Namespace struct {
	Name string `json:"name"`
	// ID is part of the table's keys. A name that is reused after a purge gets a new
	// id.
	ID        string         `json:"id"`
	State     NamespaceState `json:"state"`
	CreatedMs int64          `json:"created_ms,omitempty"` // absent if unknown
	DeletedMs int64          `json:"deleted_ms,omitempty"`
	DeletedBy string         `json:"deleted_by,omitempty"`
}

// NamespaceRequest names the namespace for admin.namespace.create, get, delete,
// recover and purge. The reply is a [Namespace]; for a purge, a
// [NamespacePurgeReply].
type NamespaceRequest struct {
	Name string `json:"name" rule:"namespace,required"`
}

// NamespaceListRequest lists the namespaces in the order of their names, a page at
// a time.
type NamespaceListRequest struct {
	// Cursor is from the preceding page; empty for the first page.
	Cursor string `json:"cursor,omitempty"`
	// Limit is the maximum number of entries of the page, up to MaxPage; 0 is DefaultPage.
	Limit int64 `json:"limit,omitempty" rule:"page"`
}

// NamespaceListReply holds a page of namespaces. The last page has no cursor.
type NamespaceListReply struct {
	Namespaces []Namespace `json:"namespaces"`
	Cursor     string      `json:"cursor,omitempty"`
}

// NamespacePurgeReply reports the progress of a single purge request. Repeat the
// request until Done; any caller can continue a purge.
type NamespacePurgeReply struct {
	// Done is true if no item is left and the name is free.
	Done bool `json:"done"`
	// Deleted is the number of items that this request removed.
	Deleted int64 `json:"deleted"`
	// Remaining is a lower estimate of the number of items left; 0 if Done.
	Remaining int64 `json:"remaining"`
}

// OperatorChange is broadcast on the config subject of OperatorNamespace after a change: a
// namespace was created, deleted, recovered or purged, or a lease key was revoked.
type OperatorChange struct {
	Name      string `json:"name,omitempty" rule:"namespace"` // of the namespace
	LeaseKeys bool   `json:"lease_keys,omitempty"`            // nodes must read the keys again
}

// Check fails unless the change names a namespace or the lease keys.
func (c *OperatorChange) Check() error {
	if (c.Name == "") == !c.LeaseKeys {
		return Errorf(CodeMissingField, "name", "the change names neither a namespace nor the lease keys, or both")
	}
	return nil
}

// LeaseKeyState is a lease signing key's stage of life.
type LeaseKeyState string

// The states, in the order in which a key goes through them.
const (
	LeaseKeyNext    LeaseKeyState = "next"    // checks leases, and will sign leases next
	LeaseKeySigning LeaseKeyState = "signing" // signs new leases
	LeaseKeyRetired LeaseKeyState = "retired" // checks leases that it signed before another key did
	LeaseKeyRevoked LeaseKeyState = "revoked" // its leases are refused
)

// LeaseKey describes a lease signing key. Only admission nodes read the key itself.
type LeaseKey struct {
	ID        string        `json:"id"` // part of each lease that the key signed
	State     LeaseKeyState `json:"state"`
	CreatedMs int64         `json:"created_ms"` // Unix milliseconds
	// SignsFromMs is the time, in Unix milliseconds, at which nodes begin to sign
	// with the key. By then all nodes know it.
	SignsFromMs int64 `json:"signs_from_ms"`
	RevokedMs   int64 `json:"revoked_ms,omitempty"` // Unix milliseconds; absent unless revoked
}

// LeaseKeyRevokeRequest names the lease key that all nodes are to refuse.
type LeaseKeyRevokeRequest struct {
	ID string `json:"id" rule:",required"`
}

// leaseKeyID is the length of a lease key's id, in characters of URL-safe base64.
const leaseKeyID = 6

// Check fails unless the request names a key by a well-formed id.
func (q *LeaseKeyRevokeRequest) Check() error {
	if b, err := base64.RawURLEncoding.Strict().DecodeString(q.ID); err != nil || len(b) != base64.RawURLEncoding.DecodedLen(leaseKeyID) {
		return Errorf(CodeInvalidID, "id", "%s is no id of a lease key, such as q8ZbTw", shown(q.ID))
	}
	return nil
}

// LeaseKeyRevokeReply describes the revoked key and the key that signs leases now.
type LeaseKeyRevokeReply struct {
	Revoked LeaseKey `json:"revoked"`
	Signing LeaseKey `json:"signing"`
}

// LeaseKeyListReply lists all keys, the oldest first. Its request is an empty
// object. A rotation's request is an empty object as well, and its reply is the
// next [LeaseKey].
type LeaseKeyListReply struct {
	Keys []LeaseKey `json:"keys"`
}

// DecodeOperatorChange reads the payload of a broadcast on the config subject of
// OperatorNamespace.
func DecodeOperatorChange(payload []byte) (OperatorChange, error) {
	return DecodeRequest[OperatorChange](payload)
}
