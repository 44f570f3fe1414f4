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
	VerbAcquireOverride Verb = "acquire.override" // an acquire that brings its own limits
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

// The verbs for operators, under OperatorNamespace alone.
const (
	VerbNamespaceCreate  Verb = "admin.namespace.create"
	VerbNamespaceList    Verb = "admin.namespace.list"
	VerbNamespaceGet     Verb = "admin.namespace.get"
	VerbNamespaceDelete  Verb = "admin.namespace.delete"
	VerbNamespaceRecover Verb = "admin.namespace.recover"
	VerbNamespacePurge   Verb = "admin.namespace.purge"
	VerbKeyList          Verb = "admin.key.list"
	VerbKeyRotate        Verb = "admin.key.rotate"
)

// Verbs lists all verbs.
func Verbs() []Verb {
	return []Verb{
		VerbAcquire, VerbAcquireOverride, VerbAdjust, VerbRelease, VerbStatus,
		VerbLimitsSet, VerbLimitsGet, VerbLimitsDelete, VerbLimitsList, VerbLimitsResolve,
		VerbCapacity, VerbBucketGet, VerbBucketReset, VerbUsageList, VerbUsageSummary,
		VerbPolicySet, VerbPolicyGet,
		VerbNamespaceCreate, VerbNamespaceList, VerbNamespaceGet, VerbNamespaceDelete, VerbNamespaceRecover, VerbNamespacePurge,
		VerbKeyList, VerbKeyRotate,
		VerbEntityCreate, VerbEntityGet, VerbEntityUpdate, VerbEntityDelete, VerbEntityChildren, VerbEntityList,
		VerbAuditList, VerbAuditShow, VerbAuditVerify,
	}
}

// How requests find the service that answers them.
const (
	// ServiceName is the name under which admission registers as a NATS micro
	// service, and QueueGroup the group in which its nodes share the requests.
	ServiceName = ServicePrefix + ServiceAdmission
	QueueGroup  = "tidegate-admission"

	// SubjectAll matches every request of every namespace.
	SubjectAll = subjectPrefix + ">"

	// EpochSubject is where admission nodes tell each other twice a second, over core
	// NATS, which term of the settlements' stream they have looked at, and the epoch.
	EpochSubject = "tidegate.epoch.v1"

	// ConfigSubjectAll matches every broadcast of a changed config.
	ConfigSubjectAll = configPrefix + ">"

	subjectPrefix = "tidegate.v1."
	configPrefix  = "tidegate.config.v1."
)

// Headers of requests and replies.
const (
	// HeaderTimeout says how many whole milliseconds the caller waits, counted
	// from when the request is received.
	HeaderTimeout = "Tidegate-Timeout-Ms"
	// HeaderDeadline says until when the caller waits, in the store's time: whole
	// milliseconds since 1970-01-01T00:00:00Z. Time that the request spends on its
	// way to a node counts, which HeaderTimeout cannot know of. With both, the
	// earlier end holds.
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

	// DefaultTimeout holds for requests without HeaderTimeout.
	DefaultTimeout = 2 * time.Second
	// MaxTimeout is the longest that a node works on a request; callers may
	// announce more.
	MaxTimeout = time.Minute

	// DefaultNamespace exists from the start.
	DefaultNamespace = "default"
	// DefaultPage and MaxPage bound the entries of a page of a list.
	DefaultPage = 100
	MaxPage     = 1000
)

// Subject is where requests of a verb in a namespace (its name, or "*" to
// subscribe to all) are sent.
func Subject(namespace string, verb Verb) string {
	return subjectPrefix + namespace + "." + string(verb)
}

// ParseSubject takes a request's subject apart. It says nothing on whether the
// namespace is well-formed or the verb exists; ok is false if there are no two
// such parts.
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
// under OperatorNamespace, the [NamespaceChange].
func ConfigSubject(namespace string) string { return configPrefix + namespace }

// ParseConfigSubject is the namespace of a config broadcast.
func ParseConfigSubject(subject string) (namespace string, ok bool) {
	namespace, ok = strings.CutPrefix(subject, configPrefix)
	return namespace, ok && namespace != ""
}

// InboxPrefix is where replies to a namespace's clients go; permissions keep
// tenants out of each other's.
func InboxPrefix(namespace string) string { return "_INBOX_" + namespace }

// MayAnswer reports whether a reply may be sent to a subject that a request
// names for it. NATS does not check whether the caller may publish there, and the
// node that answers may: to JetStream and the system ("$…"), and to nodes.
func MayAnswer(inbox string) bool {
	return !strings.HasPrefix(inbox, "$") && !strings.HasPrefix(inbox, "tidegate.")
}

// FormatTimeout is the value of HeaderTimeout for a wait, rounded down to whole
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

// FormatTime is the value of HeaderDeadline and HeaderTime for a moment of the
// store's time, rounded up to a whole millisecond.
func FormatTime(at time.Time) string {
	return strconv.FormatInt(at.Add(time.Millisecond-1).UnixMilli(), 10)
}

// ParseDeadline reads HeaderDeadline; ok is false where it is absent (empty). A
// value above the range of int64 counts as the latest moment.
func ParseDeadline(value string) (unixMs int64, ok bool, err error) {
	if value == "" {
		return 0, false, nil
	}
	unixMs, err = parseMs(HeaderDeadline, value)
	return unixMs, err == nil, err
}

// ParseTime reads HeaderTime; ok is false where it is absent or malformed.
func ParseTime(value string) (at time.Time, ok bool) {
	ms, err := strconv.ParseInt(value, 10, 64)
	return time.UnixMilli(ms), err == nil && ms > 0
}

// parseMs reads digits; a number out of range is the largest there is.
func parseMs(header, value string) (int64, error) {
	for i := range len(value) {
		if value[i] < '0' || value[i] > '9' {
			return 0, Errorf(CodeInvalidTimeout, header, "%s is no whole number of milliseconds", shown(value))
		}
	}
	ms, _ := strconv.ParseInt(value, 10, 64) // of digits alone, the error says out of range, and ms is the largest there is
	return ms, nil
}
