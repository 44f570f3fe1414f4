package api

import "strings"

// OperatorNamespace takes the namespace's place in the subjects of operator verbs,
// on namespaces and on lease keys, which belong to no tenant. It is not a valid
// namespace name, so that a tenant's permissions never cover it.
const OperatorNamespace = "_"

// ForOperators reports whether a verb is answered under OperatorNamespace, and
// there alone.
func (v Verb) ForOperators() bool {
	return strings.HasPrefix(string(v), "admin.namespace.") || strings.HasPrefix(string(v), "admin.key.")
}

// ServedIn reports whether a verb is answered in a namespace. Audit events are
// read in the operators' as in any other.
func (v Verb) ServedIn(namespace string) bool {
	if strings.HasPrefix(string(v), "admin.audit.") {
		return true
	}
	return v.ForOperators() == (namespace == OperatorNamespace)
}

// NamespaceState is a namespace's stage of life.
type NamespaceState string

// The states. Requests in a namespace are answered while it is active.
const (
	NamespaceActive  NamespaceState = "active"
	NamespaceDeleted NamespaceState = "deleted" // kept whole: recover brings it back, purge removes it
	NamespacePurging NamespaceState = "purging" // a purge has begun: it can only be finished
)

// Namespace describes a namespace to operators. Times are Unix milliseconds.
type Namespace struct {
	Name string `json:"name"`
	// ID stands in the table's keys. A name that is used again after a purge
	// gets another id.
	ID        string         `json:"id"`
	State     NamespaceState `json:"state"`
	CreatedMs int64          `json:"created_ms,omitempty"` // absent if it is not known
	DeletedMs int64          `json:"deleted_ms,omitempty"`
	DeletedBy string         `json:"deleted_by,omitempty"`
}

// NamespaceRequest names the namespace that admin.namespace.create, get, delete,
// recover and purge are about. The reply is a [Namespace], a purge's a
// [NamespacePurgeReply].
type NamespaceRequest struct {
	Name string `json:"name" rule:"namespace,required"`
}

// NamespaceListRequest asks for the namespaces in the order of their names, a
// page at a time.
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
	// Done: nothing is left and the name is free.
	Done bool `json:"done"`
	// Deleted is how many items this request removed.
	Deleted int64 `json:"deleted"`
	// Remaining is about how many items are left, at least; 0 when it is done.
	Remaining int64 `json:"remaining"`
}

// NamespaceChange is broadcast on the config subject of OperatorNamespace when
// a namespace was created, deleted, recovered or purged.
type NamespaceChange struct {
	Name string `json:"name" rule:"namespace,required"`
}

// LeaseKeyState is a lease signing key's stage of life.
type LeaseKeyState string

// The states, in the order in which a key goes through them.
const (
	LeaseKeyNext    LeaseKeyState = "next"    // known to check leases, and about to sign them
	LeaseKeySigning LeaseKeyState = "signing" // signs new leases
	LeaseKeyRetired LeaseKeyState = "retired" // checks leases that it signed
)

// LeaseKey describes a lease signing key; the key itself leaves the table for
// admission nodes alone.
type LeaseKey struct {
	ID        string        `json:"id"` // as it stands in each lease that the key signed
	State     LeaseKeyState `json:"state"`
	CreatedMs int64         `json:"created_ms"` // unix milliseconds
	// SignsFromMs is when nodes begin to sign with it, in unix milliseconds:
	// after all of them know it.
	SignsFromMs int64 `json:"signs_from_ms"`
}

// LeaseKeyListReply lists all keys, the oldest first. Its request is an empty
// object. A rotation's request is an empty object as well, and its reply is the
// next [LeaseKey].
type LeaseKeyListReply struct {
	Keys []LeaseKey `json:"keys"`
}

// DecodeNamespaceChange reads the payload of a broadcast on the config subject of
// OperatorNamespace.
func DecodeNamespaceChange(payload []byte) (NamespaceChange, error) {
	return DecodeRequest[NamespaceChange](payload)
}
