package api

// Code identifies an error for programs. The list is closed: a new code changes
// the contract, and a code never changes its meaning.
type Code string

// The codes. codeTable has a row for each.
const (
	CodeMalformedJSON    Code = "malformed_json"
	CodeUnknownField     Code = "unknown_field"
	CodeMissingField     Code = "missing_field"
	CodeWrongType        Code = "wrong_type"
	CodeInvalidEntity    Code = "invalid_entity"
	CodeInvalidResource  Code = "invalid_resource"
	CodeInvalidNamespace Code = "invalid_namespace"
	CodeInvalidLimitName Code = "invalid_limit_name"
	CodeInvalidAmount    Code = "invalid_amount"
	CodeInvalidLimit     Code = "invalid_limit"
	CodeInvalidPolicy    Code = "invalid_policy"
	CodeInvalidManifest  Code = "invalid_manifest"
	CodeInvalidTimeout   Code = "invalid_timeout"
	CodeInvalidCursor    Code = "invalid_cursor"
	CodeInvalidID        Code = "invalid_id"
	CodeInvalidAction    Code = "invalid_action"
	CodeInvalidTime      Code = "invalid_time"
	CodeInvalidWindow    Code = "invalid_window"
	CodeInvalidName      Code = "invalid_name"
	CodeInvalidMetadata  Code = "invalid_metadata"
	CodeInvalidParent    Code = "invalid_parent"
	CodeInvalidVersion   Code = "invalid_version"
	CodeUnknownLimit     Code = "unknown_limit"
	CodeNoLimits         Code = "no_limits"
	CodeTooManyLimits    Code = "too_many_limits"
	CodeEmptyConsume     Code = "empty_consume"
	CodePayloadTooLarge  Code = "payload_too_large"
	CodeReplyTooLarge    Code = "reply_too_large"
	CodeInvalidLease     Code = "invalid_lease"
	CodeExpiredLease     Code = "expired_lease"
	CodeExceedsLease     Code = "exceeds_lease"
	CodeForbidden        Code = "forbidden"
	CodeUnknownVerb      Code = "unknown_verb"
	CodeUnknownNamespace Code = "unknown_namespace"
	CodeNotFound         Code = "not_found"
	CodeDeadlineExceeded Code = "deadline_exceeded"
	CodeLeaseConflict    Code = "lease_conflict"
	CodeExceedsDebt      Code = "exceeds_debt"
	CodeConflict         Code = "conflict"
	CodeAlreadyExists    Code = "already_exists"
	CodeHasChildren      Code = "has_children"
	CodeInternal         Code = "internal"
	CodeOverloaded       Code = "overloaded"
	CodeUnavailable      Code = "unavailable"
)

// codeRow is a code with its status and its meaning.
type codeRow struct {
	code    Code
	status  int // of the header Nats-Service-Error-Code
	meaning string
}

// codeTable returns all codes, by status.
func codeTable() []codeRow {
	return []codeRow{
		{CodeMalformedJSON, 400, "the request is not one JSON object, or names a field twice"},
		{CodeUnknownField, 400, "the request has a field that this verb does not know"},
		{CodeMissingField, 400, "a field that this verb needs is missing"},
		{CodeWrongType, 400, "a field holds another JSON type than it should"},
		{CodeInvalidEntity, 400, "the entity id is ill-formed or too long"},
		{CodeInvalidResource, 400, "the resource name is ill-formed or too long"},
		{CodeInvalidNamespace, 400, "the namespace name is ill-formed or too long"},
		{CodeInvalidLimitName, 400, "a limit name is ill-formed, too long or reserved"},
		{CodeInvalidAmount, 400, "an amount is not a whole number of tokens in the allowed range"},
		{CodeInvalidLimit, 400, "a limit's settings are out of range, or it is named twice"},
		{CodeInvalidPolicy, 400, "on_unavailable is neither block nor allow, or audit events are to be kept for a time that is out of range"},
		{CodeInvalidManifest, 400, "the manifest name is ill-formed or too long"},
		{CodeInvalidTimeout, 400, "the timeout or deadline header is not a whole number of milliseconds"},
		{CodeInvalidCursor, 400, "the cursor was not made by this list"},
		{CodeInvalidID, 400, "the id of an audit event or of a lease key is ill-formed"},
		{CodeInvalidAction, 400, "there is no such action of audit events"},
		{CodeInvalidTime, 400, "a time is not in whole milliseconds, out of range, or a range ends before it begins"},
		{CodeInvalidWindow, 400, "there is no such window of usage"},
		{CodeInvalidName, 400, "a name for people has control characters or is too long"},
		{CodeInvalidMetadata, 400, "metadata has too many entries, or one that is ill-formed or too long"},
		{CodeInvalidParent, 400, "the parent would make a cycle, or more levels than there can be"},
		{CodeInvalidVersion, 400, "a version is not a whole number above 0"},
		{CodeUnknownLimit, 400, "no config level gives this bucket a limit of that name"},
		{CodeNoLimits, 400, "no config level has limits for this entity and resource"},
		{CodeTooManyLimits, 400, "more limits than one bucket can have"},
		{CodeEmptyConsume, 400, "no limit is named to spend from or settle"},
		{CodePayloadTooLarge, 400, "the request is larger than a request may be"},
		{CodeReplyTooLarge, 400, "the reply would be larger than a message of the NATS server may be"},
		{CodeInvalidLease, 400, "the lease was not issued here for this namespace, was altered, or its signing key was revoked"},
		{CodeExpiredLease, 400, "the lease is too old to give tokens back"},
		{CodeExceedsLease, 400, "more is given back than the lease still holds"},
		{CodeForbidden, 403, "the caller may not do this"},
		{CodeUnknownVerb, 400, "the subject ends in a verb that does not exist"},
		{CodeUnknownNamespace, 404, "there is no namespace of that name, or it is deleted"},
		{CodeNotFound, 404, "what was asked for does not exist"},
		{CodeDeadlineExceeded, 408, "the caller's time was up before anything was spent"},
		{CodeLeaseConflict, 409, "the lease was already settled in another way"},
		{CodeExceedsDebt, 409, "a debit would take a limit deeper into debt than 2^50 millitokens"},
		{CodeConflict, 409, "someone else changed the same thing at the same time"},
		{CodeAlreadyExists, 409, "what should be made is there already"},
		{CodeHasChildren, 409, "the entity is the parent of others"},
		{CodeInternal, 500, "a fault in the service"},
		{CodeOverloaded, 503, "the node has too many requests waiting; nothing was spent"},
		{CodeUnavailable, 503, "the store cannot be reached in time, and the policy is to block"},
	}
}

// Codes lists all codes, by status.
func Codes() []Code {
	rows := codeTable()
	codes := make([]Code, len(rows))
	for i, r := range rows {
		codes[i] = r.code
	}
	return codes
}

// Status returns the value of the header Nats-Service-Error-Code for the code: 400, 403, 404,
// 408, 409, 500 or 503. A code that is not in the list counts as internal.
func (c Code) Status() int { return c.row().status }

// Meaning returns a single-line explanation of the code.
func (c Code) Meaning() string { return c.row().meaning }

func (c Code) row() codeRow {
	for _, r := range codeTable() {
		if r.code == c {
			return r
		}
	}
	return codeRow{c, 500, "a code that this version does not know"}
}
