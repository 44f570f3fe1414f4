package api

import "slices"

// Code says what is wrong, in a form that programs may rely on. The list is
// closed: a new code is a change of the contract, and no code changes meaning.
type Code string

// All codes there are; describe gives each its status and meaning.
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

// Codes lists all codes, by status.
func Codes() []Code {
	return slices.Clone([]Code{
		CodeMalformedJSON, CodeUnknownField, CodeMissingField, CodeWrongType,
		CodeInvalidEntity, CodeInvalidResource, CodeInvalidNamespace, CodeInvalidLimitName,
		CodeInvalidAmount, CodeInvalidLimit, CodeInvalidPolicy, CodeInvalidManifest, CodeInvalidTimeout, CodeInvalidCursor,
		CodeInvalidID, CodeInvalidAction, CodeInvalidTime, CodeInvalidWindow,
		CodeInvalidName, CodeInvalidMetadata, CodeInvalidParent, CodeInvalidVersion,
		CodeUnknownLimit, CodeNoLimits, CodeTooManyLimits, CodeEmptyConsume,
		CodePayloadTooLarge, CodeInvalidLease, CodeExpiredLease, CodeExceedsLease,
		CodeForbidden, CodeUnknownVerb, CodeUnknownNamespace, CodeNotFound,
		CodeDeadlineExceeded, CodeLeaseConflict, CodeExceedsDebt, CodeConflict, CodeAlreadyExists, CodeHasChildren,
		CodeInternal, CodeOverloaded, CodeUnavailable,
	})
}

// Status is the value of the header Nats-Service-Error-Code that goes with the
// code: 400, 403, 404, 408, 409, 500 or 503. A code that is not in the list
// counts as internal.
func (c Code) Status() int {
	status, _ := c.describe()
	return status
}

// Meaning explains the code in one line.
func (c Code) Meaning() string {
	_, meaning := c.describe()
	return meaning
}

func (c Code) describe() (status int, meaning string) {
	switch c {
	case CodeMalformedJSON:
		return 400, "the request is not one JSON object, or names a field twice"
	case CodeUnknownField:
		return 400, "the request has a field that this verb does not know"
	case CodeMissingField:
		return 400, "a field that this verb needs is missing"
	case CodeWrongType:
		return 400, "a field holds another JSON type than it should"
	case CodeInvalidEntity:
		return 400, "the entity id is ill-formed or too long"
	case CodeInvalidResource:
		return 400, "the resource name is ill-formed or too long"
	case CodeInvalidNamespace:
		return 400, "the namespace name is ill-formed or too long"
	case CodeInvalidLimitName:
		return 400, "a limit name is ill-formed, too long or reserved"
	case CodeInvalidAmount:
		return 400, "an amount is not a whole number of tokens in the allowed range"
	case CodeInvalidLimit:
		return 400, "a limit's settings are out of range, or it is named twice"
	case CodeInvalidPolicy:
		return 400, "on_unavailable is neither block nor allow, or audit events are to be kept for a time that is out of range"
	case CodeInvalidManifest:
		return 400, "the manifest name is ill-formed or too long"
	case CodeInvalidTimeout:
		return 400, "the timeout or deadline header is not a whole number of milliseconds"
	case CodeInvalidCursor:
		return 400, "the cursor was not made by this list"
	case CodeInvalidID:
		return 400, "the id of an audit event is ill-formed"
	case CodeInvalidAction:
		return 400, "there is no such action of audit events"
	case CodeInvalidTime:
		return 400, "a time is not in whole milliseconds, out of range, or a range ends before it begins"
	case CodeInvalidWindow:
		return 400, "there is no such window of usage"
	case CodeInvalidName:
		return 400, "a name for people has control characters or is too long"
	case CodeInvalidMetadata:
		return 400, "metadata has too many entries, or one that is ill-formed or too long"
	case CodeInvalidParent:
		return 400, "the parent would make a cycle, or more levels than there can be"
	case CodeInvalidVersion:
		return 400, "a version is not a whole number above 0"
	case CodeUnknownLimit:
		return 400, "no config level gives this bucket a limit of that name"
	case CodeNoLimits:
		return 400, "no config level has limits for this entity and resource"
	case CodeTooManyLimits:
		return 400, "more limits than one bucket can have"
	case CodeEmptyConsume:
		return 400, "no limit is named to spend from or settle"
	case CodePayloadTooLarge:
		return 400, "the request is larger than a request may be"
	case CodeInvalidLease:
		return 400, "the lease was not issued here for this namespace, or was altered"
	case CodeExpiredLease:
		return 400, "the lease is too old to give tokens back"
	case CodeExceedsLease:
		return 400, "more is given back than the lease still holds"
	case CodeForbidden:
		return 403, "the caller may not do this"
	case CodeUnknownVerb:
		return 400, "the subject ends in a verb that does not exist"
	case CodeUnknownNamespace:
		return 404, "there is no namespace of that name, or it is deleted"
	case CodeNotFound:
		return 404, "what was asked for does not exist"
	case CodeDeadlineExceeded:
		return 408, "the caller's time was up before anything was spent"
	case CodeExceedsDebt:
		return 409, "a debit would take a limit deeper into debt than 2^50 millitokens"
	case CodeLeaseConflict:
		return 409, "the lease was already settled in another way"
	case CodeConflict:
		return 409, "someone else changed the same thing at the same time"
	case CodeAlreadyExists:
		return 409, "what should be made is there already"
	case CodeHasChildren:
		return 409, "the entity is the parent of others"
	case CodeInternal:
		return 500, "a fault in the service"
	case CodeOverloaded:
		return 503, "the node has too many requests waiting; nothing was spent"
	case CodeUnavailable:
		return 503, "the store cannot be reached in time, and the policy is to block"
	}
	return 500, "a code that this version does not know"
}
