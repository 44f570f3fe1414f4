package api

import "strings"

// OperatorNamespace stands in the subjects of what belongs to no tenant: the
// verbs on namespaces and on lease keys. It is no namespace's name, so that
// permissions for a tenant never cover it.
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

// NamespaceState says what can be done with a namespace.
type NamespaceState string

// The states. Requests in a namespace are answered while it is active.
const (
	NamespaceActive  NamespaceState = "active"
	NamespaceDeleted NamespaceState = "deleted" // kept whole: recover brings it back, purge removes it
	NamespacePurging NamespaceState = "purging" // a purge has begun: it can only be finished
)

// Namespace is one namespace as operators see it. Times are unix milliseconds.
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
	// Cursor is that of the page before; empty for the first page.
	Cursor string `json:"cursor,omitempty"`
	// Limit bounds the entries of the page, up to MaxPage; 0 is DefaultPage.
	Limit int64 `json:"limit,omitempty" rule:"page"`
}

// NamespaceListReply is one page. The last one has no cursor.
type NamespaceListReply struct {
	Namespaces []Namespace `json:"namespaces"`
	Cursor     string      `json:"cursor,omitempty"`
}

// NamespacePurgeReply is what one request of a purge did. Ask again until it is
// done; whoever asks, the purge goes on with what is left.
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

// LeaseKeyState says what a lease signing key is used for.
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
// object, as is that of a rotation, whose reply is the next [LeaseKey].
type LeaseKeyListReply struct {
	Keys []LeaseKey `json:"keys"`
}

// DecodeNamespaceChange reads the payload of a broadcast on the config subject of
// OperatorNamespace.
func DecodeNamespaceChange(payload []byte) (NamespaceChange, error) {
	return DecodeRequest[NamespaceChange](payload)
}
