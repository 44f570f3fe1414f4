package admin

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"

	"github.com/tidegate/tidegate/internal/archive"
	"github.com/tidegate/tidegate/internal/audit"
	"github.com/tidegate/tidegate/internal/capacity"
	"github.com/tidegate/tidegate/internal/config"
	"github.com/tidegate/tidegate/internal/leasekey"
	"github.com/tidegate/tidegate/internal/shards"
	"github.com/tidegate/tidegate/internal/table"
	"github.com/tidegate/tidegate/internal/trail"
	"github.com/tidegate/tidegate/internal/usage"
	"github.com/tidegate/tidegate/pkg/api"
)

// Namespace is the tenant that a request belongs to, or the registry for an
// operator's, and who asks.
type Namespace struct {
	Name string // in subjects
	ID   string // in keys
	By   api.Principal
}

// Admin serves the admin verbs. It is safe for concurrent use.
type Admin struct {
	limits     *config.LimitStore
	namespaces *config.NamespaceOperator
	keys       *leasekey.Keys
	entities   *config.EntityStore
	trail      *trail.Trail
	capacity   *capacity.Store
	usage      *usage.Store
	shards     *shards.Operator
	publish    func(subject string, data []byte) error
	log        *slog.Logger
	verbs      map[api.Verb]serveFunc // never changed
}

// Stores are what the verbs read and change.
type Stores struct {
	Limits     *config.LimitStore
	Namespaces *config.NamespaceOperator
	Keys       *leasekey.Keys
	Entities   *config.EntityStore
	Trail      *trail.Trail
	Capacity   *capacity.Store
	Usage      *usage.Store
	Shards     *shards.Operator
}

// New returns an Admin that broadcasts changes through publish, such as
// nats.Conn's, which must not block.
func New(s Stores, publish func(subject string, data []byte) error, log *slog.Logger) *Admin {
	a := &Admin{
		limits: s.Limits, namespaces: s.Namespaces, keys: s.Keys, entities: s.Entities, trail: s.Trail, capacity: s.Capacity, usage: s.Usage, shards: s.Shards,
		publish: publish, log: log,
	}
	a.verbs = map[api.Verb]serveFunc{
		api.VerbLimitsSet:     verb(api.DecodeLimitsSet, a.limitsSet),
		api.VerbLimitsGet:     verb(api.DecodeLimitsGet, a.limitsGet),
		api.VerbLimitsDelete:  verb(api.DecodeLimitsDelete, a.limitsDelete),
		api.VerbLimitsList:    verb(api.DecodeLimitsList, a.limitsList),
		api.VerbLimitsResolve: verb(api.DecodeLimitsResolve, a.limitsResolve),
		api.VerbCapacity:      verb(api.DecodeCapacity, a.capacityGet),
		api.VerbBucketGet:     verb(api.DecodeBucket, a.bucketGet),
		api.VerbBucketReset:   verb(api.DecodeBucket, a.bucketReset),
		api.VerbUsageList:     verb(api.DecodeUsage, a.usageList),
		api.VerbUsageSummary:  verb(api.DecodeUsage, a.usageSummary),
		api.VerbPolicySet:     verb(api.DecodePolicySet, a.policySet),
		api.VerbPolicyGet:     verb(api.DecodePolicyGet, a.policyGet),
		api.VerbAuditList:     verb(api.DecodeAuditList, a.auditList),
		api.VerbAuditShow:     verb(api.DecodeAuditShow, a.auditShow),
		api.VerbAuditVerify:   verb(api.DecodeAuditVerify, a.auditVerify),

		api.VerbNamespaceCreate:  verb(api.DecodeNamespaceRequest, changeNamespace(a, a.namespaces.Create)),
		api.VerbNamespaceList:    verb(api.DecodeNamespaceList, a.namespaceList),
		api.VerbNamespaceGet:     verb(api.DecodeNamespaceRequest, a.namespaceGet),
		api.VerbNamespaceDelete:  verb(api.DecodeNamespaceRequest, changeNamespace(a, a.namespaces.Delete)),
		api.VerbNamespaceRecover: verb(api.DecodeNamespaceRequest, changeNamespace(a, a.namespaces.Recover)),
		api.VerbNamespacePurge:   verb(api.DecodeNamespaceRequest, changeNamespace(a, a.namespaces.Purge)),

		api.VerbKeyList:   verb(api.DecodeEmpty, a.keyList),
		api.VerbKeyRotate: verb(api.DecodeEmpty, a.keyRotate),

		api.VerbEntityCreate:   verb(api.DecodeEntityCreate, a.entityCreate),
		api.VerbEntityGet:      verb(api.DecodeEntityGet, a.entityGet),
		api.VerbEntityUpdate:   verb(api.DecodeEntityUpdate, a.entityUpdate),
		api.VerbEntityDelete:   verb(api.DecodeEntityDelete, a.entityDelete),
		api.VerbEntityChildren: verb(api.DecodeEntityChildren, a.entityChildren),
		api.VerbEntityList:     verb(api.DecodeEntityList, a.entityList),
	}
	return a
}

// serveFunc answers the request of one verb with a value that becomes JSON.
type serveFunc func(ctx context.Context, ns Namespace, body []byte) (any, error)

// verb joins how a request is read and what is done with it.
func verb[Q, R any](decode func([]byte) (Q, error), do func(context.Context, Namespace, Q) (R, error)) serveFunc {
	return func(ctx context.Context, ns Namespace, body []byte) (any, error) {
		q, err := decode(body)
		if err != nil {
			return nil, err
		}
		return do(ctx, ns, q)
	}
}

// Serves reports whether a verb is one of those that Handle knows.
func (a *Admin) Serves(v api.Verb) bool {
	_, ok := a.verbs[v]
	return ok
}

// Handle answers a request with the reply's body, or with what is wrong with it
// and nothing changed; after the code unavailable a change may have been made
// all the same, and the message says so.
func (a *Admin) Handle(ctx context.Context, ns Namespace, v api.Verb, body []byte) ([]byte, *api.Error) {
	serve, ok := a.verbs[v]
	if !ok || !v.ServedIn(ns.Name) {
		return nil, api.Errorf(api.CodeUnknownVerb, "", "there is no verb %.50q", string(v))
	}
	value, err := serve(ctx, ns, body)
	if err != nil {
		return nil, a.refusal(ctx, ns, v, err)
	}
	reply, err := json.Marshal(value)
	if err != nil {
		return nil, a.refusal(ctx, ns, v, err)
	}
	return reply, nil
}

// refusal turns an error into what the caller is told. What is not the caller's
// doing is logged in full, and told in short: its text may name keys and hosts.
func (a *Admin) refusal(ctx context.Context, ns Namespace, v api.Verb, err error) *api.Error {
	var refusal *api.Error
	if errors.As(err, &refusal) {
		return refusal
	}
	a.log.ErrorContext(ctx, "an admin request failed", "namespace", ns.Name, "verb", v, "error", err)
	switch {
	case errors.Is(err, table.ErrDamaged):
		return api.Errorf(api.CodeInternal, "", "a stored item is damaged; the node's log says which")
	case errors.Is(err, archive.ErrDamaged):
		return api.Errorf(api.CodeInternal, "", "an object of the audit archive is damaged; the node's log says which, and audit verify finds all")
	case errors.Is(err, audit.ErrOutcomeUnknown):
		return api.Errorf(api.CodeUnavailable, "", "the store did not answer in time: %s", audit.ErrOutcomeUnknown)
	case errors.Is(ctx.Err(), context.DeadlineExceeded):
		return api.Errorf(api.CodeDeadlineExceeded, "", "the store did not answer within the request's time; nothing was changed")
	}
	return api.Errorf(api.CodeUnavailable, "", "the store cannot be used now; nothing was changed")
}

// changed broadcasts a change that was made, or that may have been: of a level,
// or, for an entity's parent and cascade, of all levels of the entity.
func (a *Admin) changed(ctx context.Context, ns Namespace, target api.LimitsTarget, err error) {
	if err == nil || errors.Is(err, audit.ErrOutcomeUnknown) {
		a.broadcast(ctx, ns, target)
	}
}

// broadcast tells all nodes that a level changed. That it fails does not undo
// the change: nodes read their settings again by age.
func (a *Admin) broadcast(ctx context.Context, ns Namespace, target api.LimitsTarget) {
	data, err := json.Marshal(target)
	if err == nil {
		err = a.publish(api.ConfigSubject(ns.Name), data)
	}
	if err != nil {
		a.log.WarnContext(ctx, "a changed config was not broadcast: nodes will notice within a minute", "namespace", ns.Name, "error", err)
	}
}
