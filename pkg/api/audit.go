package api

import (
	"encoding/json"
	"slices"
)

// AuditAction names the kind of an administrative change.
type AuditAction string

// The actions. The list is closed: a new action changes the contract.
const (
	AuditLimitsSet    AuditAction = "limits.set"
	AuditLimitsDelete AuditAction = "limits.delete"
	AuditPolicySet    AuditAction = "policy.set"
	AuditBucketReset  AuditAction = "bucket.reset"
	AuditEntityCreate AuditAction = "entity.create"
	AuditEntityUpdate AuditAction = "entity.update"
	AuditEntityDelete AuditAction = "entity.delete"

	// Only in OperatorNamespace.
	AuditNamespaceCreate  AuditAction = "namespace.create"
	AuditNamespaceDelete  AuditAction = "namespace.delete"
	AuditNamespaceRecover AuditAction = "namespace.recover"
	AuditNamespacePurge   AuditAction = "namespace.purge"  // a purge begins
	AuditNamespacePurged  AuditAction = "namespace.purged" // and has ended
	AuditKeyRotate        AuditAction = "key.rotate"
	AuditKeyRevoke        AuditAction = "key.revoke"
)

// AuditActions lists all actions.
func AuditActions() []AuditAction {
	return []AuditAction{
		AuditLimitsSet, AuditLimitsDelete, AuditPolicySet, AuditBucketReset,
		AuditEntityCreate, AuditEntityUpdate, AuditEntityDelete,
		AuditNamespaceCreate, AuditNamespaceDelete, AuditNamespaceRecover, AuditNamespacePurge, AuditNamespacePurged,
		AuditKeyRotate, AuditKeyRevoke,
	}
}

// Check fails with invalid_action if the action is not in [AuditActions].
func (a AuditAction) Check() error {
	if slices.Contains(AuditActions(), a) {
		return nil
	}
	return Errorf(CodeInvalidAction, "", "%s: the actions are %v", shown(string(a)), AuditActions())
}

// Principal identifies the caller of a change: a NATS user and its account.
type Principal struct {
	User    string `json:"user,omitempty"`
	Account string `json:"account,omitempty"`
	// Verified is true if the NATS server stated the identity. Otherwise User and
	// Account are the unverified claims of the request and may be empty.
	Verified bool `json:"verified"`
}

// AuditEvent records an administrative change. Sequence numbers within a namespace
// have no gaps. Events form a chain: each event contains the MAC of its predecessor.
type AuditEvent struct {
	// ID names the event within its namespace.
	ID string `json:"id"`
	// Namespace is the namespace's id; its name may be reused by another namespace.
	Namespace string `json:"namespace"`
	// Sequence counts the namespace's changes, from 1.
	Sequence int64 `json:"sequence"`
	// AtMs is the time of the change, in Unix milliseconds. It never decreases along
	// the sequence.
	AtMs int64 `json:"at_ms"`
	// Target names the changed item: an entity, "$SYSTEM", or "$RESOURCE:" and a
	// resource; for operators "$NAMESPACE:" and a name, or "$LEASE_KEYS".
	Target string      `json:"target"`
	Action AuditAction `json:"action"`
	Who    Principal   `json:"who"`
	// Before and After are the item's states around the change, in the JSON form
	// that the read verbs return; nil if the item did not exist.
	Before json.RawMessage `json:"before,omitempty"`
	After  json.RawMessage `json:"after,omitempty"`
	// Previous is the MAC of the preceding event, empty for the first event. MAC is
	// this event's own, computed with the key that Key identifies. All three are
	// URL-safe base64.
	Previous string `json:"previous_mac,omitempty"`
	Key      string `json:"key_id"`
	MAC      string `json:"mac"`
	// Deleted describes how the event moved from the table to the archive; nil if
	// the event is still in the table. The MAC does not cover this field.
	Deleted *AuditDeletion `json:"deleted,omitempty"`
}

// AuditDeletion describes the deletion of an audit event from the table.
type AuditDeletion struct {
	By AuditDeleter `json:"by"`
	// AtMs is the time of the deletion, in Unix milliseconds, with DynamoDB's
	// resolution of a second.
	AtMs int64 `json:"at_ms"`
}

// AuditDeleter names the cause of an audit event's deletion from the table.
type AuditDeleter string

// The causes of a deletion.
const (
	DeletedByTTL  AuditDeleter = "time_to_live" // its retention ended
	DeletedByHand AuditDeleter = "hand"         // a person, or a purge of the namespace
)

// AuditListRequest lists audit events, the newest first, a page at a time: of the
// System, a Resource or an Entity, or, without a target, of the whole namespace.
type AuditListRequest struct {
	LimitsTarget
	// Action selects events of this action; empty: all.
	Action AuditAction `json:"action,omitempty" rule:"action"`
	// FromMs and ToMs bound the times, both included, in Unix milliseconds; 0 is
	// no bound.
	FromMs int64 `json:"from_ms,omitempty" rule:"time"`
	ToMs   int64 `json:"to_ms,omitempty" rule:"time"`
	// Cursor is from the preceding page; empty for the first page.
	Cursor string `json:"cursor,omitempty"`
	// Limit is the maximum number of entries of the page, up to MaxPage; 0 is DefaultPage.
	Limit int64 `json:"limit,omitempty" rule:"page"`
}

// AuditListReply holds a page of events. The last page has no cursor; earlier pages
// may hold fewer entries than requested, even zero.
type AuditListReply struct {
	Events []AuditEvent `json:"events"`
	Cursor string       `json:"cursor,omitempty"`
}

// AuditShowRequest reads an event by its ID.
type AuditShowRequest struct {
	ID string `json:"id" rule:",required"`
}

// AuditShowReply holds an event. Intact is true if the event matches its MAC.
type AuditShowReply struct {
	AuditEvent
	Intact bool `json:"intact"`
}

// WireSize returns an upper estimate of the event's size in JSON, in bytes. It holds
// for events with storable names.
func (e *AuditEvent) WireSize() int {
	const rest = 640 // field names, punctuation, numbers, MACs, ids
	return rest + len(e.Target) + 6*(len(e.Who.User)+len(e.Who.Account)) + len(e.Before) + len(e.After)
}

// AuditVerifyRequest verifies that the events of the namespace are complete, unique and
// unaltered, a part at a time, the newest first.
type AuditVerifyRequest struct {
	// FromMs and ToMs bound the times, both included, in Unix milliseconds; 0 is no
	// bound.
	FromMs int64 `json:"from_ms,omitempty" rule:"time"`
	ToMs   int64 `json:"to_ms,omitempty" rule:"time"`
	// Cursor is from the preceding part; empty for the first.
	Cursor string `json:"cursor,omitempty"`
}

// AuditVerifyReply reports the findings of a part. The last part has no cursor.
type AuditVerifyReply struct {
	// Checked is the number of verified events, without repeats.
	Checked  int64          `json:"checked"`
	Findings []AuditFinding `json:"findings"`
	// ArchiveSearched is true if the node searched an archive for events that left the
	// table. Which archive, is the operators' matter.
	ArchiveSearched bool   `json:"archive_searched,omitempty"`
	Cursor          string `json:"cursor,omitempty"`
}

// AuditFinding describes a defect of the audit log.
type AuditFinding struct {
	Kind AuditFindingKind `json:"kind"`
	// First and Last are the sequences of the events; 0 if unknown.
	First int64 `json:"first,omitempty"`
	Last  int64 `json:"last,omitempty"`
	// ID of the event; empty if the event is missing or its ID unknown.
	ID string `json:"id,omitempty"`
	// Where the event is: "table", or an object of the archive.
	Where string `json:"where,omitempty"`
	// Detail explains the finding to people.
	Detail string `json:"detail,omitempty"`
}

// AuditFindingKind names a kind of defect in the audit log.
type AuditFindingKind string

// The kinds of defects.
const (
	AuditMissing    AuditFindingKind = "missing"    // an event is neither in the table nor in the archive
	AuditAltered    AuditFindingKind = "altered"    // an event differs from its sealed content
	AuditDoubled    AuditFindingKind = "doubled"    // two events have the same sequence number
	AuditUnchained  AuditFindingKind = "unchained"  // an event is intact, but its successor was chained to a different event
	AuditUnreadable AuditFindingKind = "unreadable" // an object of the archive is damaged
)

// checkTimes fails unless times are in order; 0 is no bound.
func checkTimes(fromMs, toMs int64) error {
	switch {
	case fromMs < 0:
		return Errorf(CodeInvalidTime, "from_ms", "%d is before 1970", fromMs)
	case toMs < 0 || toMs != 0 && toMs < fromMs:
		return Errorf(CodeInvalidTime, "to_ms", "%d is before from_ms, %d", toMs, fromMs)
	}
	return nil
}

// Check fails unless the request names at most a single target and its times are in order.
func (q *AuditListRequest) Check() error {
	if q.LimitsTarget != (LimitsTarget{}) {
		if err := q.LimitsTarget.Check(); err != nil {
			return err
		}
	}
	if q.Entity != "" && q.Resource != "" {
		return Errorf(CodeUnknownField, "resource", "the events of an entity are listed for all its resources: leave the resource out")
	}
	if err := checkTimes(q.FromMs, q.ToMs); err != nil {
		return err
	}
	if q.Action != "" {
		if err := q.Action.Check(); err != nil {
			return within("action", err)
		}
	}
	return nil
}

// Check fails unless the request names times in order.
func (q *AuditVerifyRequest) Check() error { return checkTimes(q.FromMs, q.ToMs) }
