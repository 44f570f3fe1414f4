package api

import (
	"strconv"
	"strings"
	"time"
)

// Verb names an operation: the last part of a request's subject.
type Verb string

// The verbs that services answer.
const (
	VerbAcquire         Verb = "acquire"
	VerbAcquireOverride Verb = "acquire.override" // an acquire that supplies its own limits
	VerbAdjust          Verb = "adjust"
	VerbRelease         Verb = "release"
	VerbStatus          Verb = "status"
	VerbLimitsSet       Verb = "admin.limits.set"
	VerbLimitsGet       Verb = "admin.limits.get"
	VerbLimitsDelete    Verb = "admin.limits.delete"
	VerbLimitsList      Verb = "admin.limits.list"
	VerbLimitsResolve   Verb = "admin.limits.resolve"
	VerbCapacity        Verb = "admin.capacity.get"
	VerbBucketGet       Verb = "admin.bucket.get"
	VerbBucketReset     Verb = "admin.bucket.reset"
	VerbUsageList       Verb = "admin.usage.list"
	VerbUsageSummary    Verb = "admin.usage.summary"
	VerbPolicySet       Verb = "admin.policy.set"
	VerbPolicyGet       Verb = "admin.policy.get"
	VerbEntityCreate    Verb = "admin.entity.create"
	VerbEntityGet       Verb = "admin.entity.get"
	VerbEntityUpdate    Verb = "admin.entity.update"
	VerbEntityDelete    Verb = "admin.entity.delete"
	VerbEntityChildren  Verb = "admin.entity.children"
	VerbEntityList      Verb = "admin.entity.list"
	VerbAuditList       Verb = "admin.audit.list"
	VerbAuditShow       Verb = "admin.audit.show"
	VerbAuditVerify     Verb = "admin.audit.verify"
)

// The verbs for operators, served only under OperatorNamespace.
const (
	VerbNamespaceCreate  Verb = "admin.namespace.create"
	VerbNamespaceList    Verb = "admin.namespace.list"
	VerbNamespaceGet     Verb = "admin.namespace.get"
	VerbNamespaceDelete  Verb = "admin.namespace.delete"
	VerbNamespaceRecover Verb = "admin.namespace.recover"
	VerbNamespacePurge   Verb = "admin.namespace.purge"
	VerbKeyList          Verb = "admin.key.list"
	VerbKeyRotate        Verb = "admin.key.rotate"
	VerbKeyRevoke        Verb = "admin.key.revoke"
)

// VerbsAdmin stands for all verbs that begin with "admin." in a subscription.
const VerbsAdmin Verb = "admin.>"

// Verbs lists all verbs.
func Verbs() []Verb {
	return []Verb{
		VerbAcquire, VerbAcquireOverride, VerbAdjust, VerbRelease, VerbStatus,
		VerbLimitsSet, VerbLimitsGet, VerbLimitsDelete, VerbLimitsList, VerbLimitsResolve,
		VerbCapacity, VerbBucketGet, VerbBucketReset, VerbUsageList, VerbUsageSummary,
		VerbPolicySet, VerbPolicyGet,
		VerbNamespaceCreate, VerbNamespaceList, VerbNamespaceGet, VerbNamespaceDelete, VerbNamespaceRecover, VerbNamespacePurge,
		VerbKeyList, VerbKeyRotate, VerbKeyRevoke,
		VerbEntityCreate, VerbEntityGet, VerbEntityUpdate, VerbEntityDelete, VerbEntityChildren, VerbEntityList,
		VerbAuditList, VerbAuditShow, VerbAuditVerify,
	}
}

// The names and subjects of the admission service.
const (
	// ServiceName is the name under which admission registers as a NATS micro
	// service, and QueueGroup the group in which its nodes share the requests.
	ServiceName = ServicePrefix + ServiceAdmission
	QueueGroup  = "tidegate-admission"

	// SubjectAll matches every request of every namespace.
	SubjectAll = subjectPrefix + ">"

	// EpochSubject is the subject on which admission nodes exchange, twice a second
	// over core NATS, the term of the settlements' stream that they have examined,
	// and the epoch.
	EpochSubject = "tidegate.epoch.v1"

	// ConfigSubjectAll matches every broadcast of a changed config.
	ConfigSubjectAll = configPrefix + ">"

	subjectPrefix = "tidegate.v1."
	configPrefix  = "tidegate.config.v1."
)

// Headers of requests and replies.
const (
	// HeaderTimeout is the caller's timeout in whole milliseconds, counted from the
	// receipt of the request.
	HeaderTimeout = "Tidegate-Timeout-Ms"
	// HeaderDeadline is the end of the caller's wait, in the store's time: whole
	// milliseconds since 1970-01-01T00:00:00Z. Unlike HeaderTimeout, it includes the
	// request's time in transit to a node. With both, the earlier end applies.
	HeaderDeadline = "Tidegate-Deadline"
	// HeaderTime is the store's time at the moment of the answer, as the node knows
	// it, in the unit of HeaderDeadline. Nodes send it in replies to requests with
	// HeaderTimeout or HeaderDeadline.
	HeaderTime = "Tidegate-Time"
	// HeaderErrorCode (the status of the code) and HeaderError (its message)
	// mark a reply as an error. NATS micro services define both names.
	HeaderErrorCode = "Nats-Service-Error-Code"
	HeaderError     = "Nats-Service-Error"
	// HeaderRequestInfo names the sender of a request; the NATS server sets it if
	// the request comes through a service import.
	HeaderRequestInfo = "Nats-Request-Info"
	// HeaderRequestID identifies the request in the logs of all services that handle
	// it: see [IsRequestID].
	HeaderRequestID = "Tidegate-Request-Id"
)

// Bounds of requests.
const (
	// MaxPayload is the largest request, in bytes.
	MaxPayload = 64 << 10
	// MaxLimits is the maximum number of limits of a bucket.
	MaxLimits = 16
	// MaxAmount is the largest amount or capacity, in tokens.
	MaxAmount = 1 << 40
	// MaxRate is the fastest refill, in tokens per second.
	MaxRate = 2_000_000
	// MaxPeriodSeconds is the longest refill period: ten years of 365 days.
	MaxPeriodSeconds = 3650 * 86400

	// DefaultTimeout applies to requests without HeaderTimeout.
	DefaultTimeout = 2 * time.Second
	// MaxTimeout is the longest time that a node works on a request; longer timeouts
	// of callers are cut to it.
	MaxTimeout = time.Minute

	// DefaultNamespace exists from the start.
	DefaultNamespace = "default"
	// DefaultPage and MaxPage bound the entries of a page of a list.
	DefaultPage = 100
	MaxPage     = 1000
)

// Subject returns the subject for requests of a verb in a namespace (its name, or
// "*" to subscribe to all).
func Subject(namespace string, verb Verb) string {
	return subjectPrefix + namespace + "." + string(verb)
}

// ParseSubject splits a request's subject into namespace and verb. It does not check
// that the namespace is well-formed or the verb exists; ok is false if either part
// is missing.
func ParseSubject(subject string) (namespace string, verb Verb, ok bool) {
	rest, ok := strings.CutPrefix(subject, subjectPrefix)
	if !ok {
		return "", "", false
	}
	namespace, name, ok := strings.Cut(rest, ".")
	if !ok || namespace == "" || name == "" {
		return "", "", false
	}
	return namespace, Verb(name), true
}

// ConfigSubject returns the subject on which changes of a namespace's config are
// broadcast over core NATS, so that every node drops its cached config. The payload
// is the changed [LimitsTarget]; for an entity's parent and cascade, the entity;
// under OperatorNamespace, the [OperatorChange].
func ConfigSubject(namespace string) string { return configPrefix + namespace }

// ParseConfigSubject returns the namespace of a config broadcast.
func ParseConfigSubject(subject string) (namespace string, ok bool) {
	namespace, ok = strings.CutPrefix(subject, configPrefix)
	return namespace, ok && namespace != ""
}

// InboxPrefix returns the prefix of the reply subjects of a NATS user. Accounts keep tenants
// out of each other's inboxes, and permissions the users of an account. The user of a
// tenant's services has the namespace's name.
func InboxPrefix(user string) string { return "_INBOX_" + user }

// MayAnswer reports whether a node may send a reply to the subject that a request
// names. NATS does not check that the caller may publish to it, and the node has
// wider permissions: it may publish to JetStream and the system ("$…"), and to nodes.
func MayAnswer(inbox string) bool {
	return !strings.HasPrefix(inbox, "$") && !strings.HasPrefix(inbox, "tidegate.")
}

// FormatTimeout returns the value of HeaderTimeout for a wait, rounded down to whole
// milliseconds but never below 1.
func FormatTimeout(wait time.Duration) string {
	return strconv.FormatInt(max(1, wait.Milliseconds()), 10)
}

// ParseTimeout reads HeaderTimeout. An absent (empty) value returns DefaultTimeout;
// a value above MaxTimeout returns MaxTimeout.
func ParseTimeout(value string) (time.Duration, error) {
	if value == "" {
		return DefaultTimeout, nil
	}
	ms, err := parseMs(HeaderTimeout, value)
	switch {
	case err != nil:
		return 0, err
	case ms == 0:
		return 0, Errorf(CodeInvalidTimeout, HeaderTimeout, "0 leaves no time to answer; leave the header out for %v", DefaultTimeout)
	}
	return time.Duration(min(ms, MaxTimeout.Milliseconds())) * time.Millisecond, nil
}

// FormatTime returns the value of HeaderDeadline and HeaderTime for a moment of the
// store's time, rounded up to a whole millisecond.
func FormatTime(at time.Time) string {
	return strconv.FormatInt(at.Add(time.Millisecond-1).UnixMilli(), 10)
}

// ParseDeadline reads HeaderDeadline; ok is false if it is absent (empty). A
// value above the range of int64 counts as the latest moment.
func ParseDeadline(value string) (unixMs int64, ok bool, err error) {
	if value == "" {
		return 0, false, nil
	}
	unixMs, err = parseMs(HeaderDeadline, value)
	return unixMs, err == nil, err
}

// ParseTime reads HeaderTime; ok is false if it is absent or malformed.
func ParseTime(value string) (at time.Time, ok bool) {
	ms, err := strconv.ParseInt(value, 10, 64)
	return time.UnixMilli(ms), err == nil && ms > 0
}

// parseMs parses digits; a number out of range becomes the largest int64.
func parseMs(header, value string) (int64, error) {
	for i := range len(value) {
		if value[i] < '0' || value[i] > '9' {
			return 0, Errorf(CodeInvalidTimeout, header, "%s is not a whole number of milliseconds", shown(value))
		}
	}
	ms, _ := strconv.ParseInt(value, 10, 64) // for digits, the only error is out of range; ms is then the largest int64
	return ms, nil
}
