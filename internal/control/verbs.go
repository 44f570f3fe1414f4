package control

import (
	"context"
	"errors"

	"github.com/tidegate/tidegate/internal/audit"
	"github.com/tidegate/tidegate/internal/config"
	"github.com/tidegate/tidegate/pkg/api"
	"github.com/tidegate/tidegate/pkg/keys"
)

// serveFunc answers the request of a verb with a value that becomes JSON.
type serveFunc func(ctx context.Context, c Caller, body []byte) (any, error)

// row is a verb with the function that decodes and answers its requests. The subject and the
// namespaces of a verb follow from its name, in pkg/api.
type row struct {
	verb  api.Verb
	serve serveFunc
}

// rows returns the table of the admin verbs.
func (s *Service) rows(st Stores) []row {
	return []row{
		{api.VerbLimitsSet, verb(changeLevel(s, st.Limits.Set, func(q api.LimitsSetRequest) api.LimitsTarget { return q.LimitsTarget }))},
		{api.VerbLimitsGet, verb(func(ctx context.Context, c Caller, q api.LimitsGetRequest) (api.LimitsLevel, error) {
			return st.Limits.Get(ctx, c.ID, q.LimitsTarget)
		})},
		{api.VerbLimitsDelete, verb(changeLevel(s, deleteLimits(st.Limits), func(q api.LimitsDeleteRequest) api.LimitsTarget { return q.LimitsTarget }))},
		{api.VerbLimitsList, verb(read(st.Limits.List))},
		{api.VerbLimitsResolve, verb(read(resolveLimits(st.Limits)))},
		{api.VerbPolicySet, verb(changeLevel(s, st.Limits.SetPolicy, func(q api.PolicySetRequest) api.LimitsTarget { return q.LimitsTarget }))},
		{api.VerbPolicyGet, verb(func(ctx context.Context, c Caller, q api.PolicyGetRequest) (api.PolicyLevel, error) {
			return st.Limits.Policy(ctx, c.ID, q.LimitsTarget)
		})},

		{api.VerbEntityCreate, verb(changeLevel(s, st.Entities.Create, func(q api.EntityCreateRequest) api.LimitsTarget { return api.LimitsTarget{Entity: q.ID} }))},
		{api.VerbEntityUpdate, verb(changeLevel(s, st.Entities.Update, func(q api.EntityUpdateRequest) api.LimitsTarget { return api.LimitsTarget{Entity: q.ID} }))},
		{api.VerbEntityDelete, verb(changeLevel(s, deleteEntity(st.Entities), func(q api.EntityDeleteRequest) api.LimitsTarget { return api.LimitsTarget{Entity: q.ID} }))},
		{api.VerbEntityGet, verb(func(ctx context.Context, c Caller, q api.EntityGetRequest) (api.Entity, error) {
			return st.Entities.Get(ctx, c.ID, q.ID)
		})},
		{api.VerbEntityChildren, verb(read(st.Entities.Children))},
		{api.VerbEntityList, verb(read(st.Entities.List))},

		{api.VerbCapacity, verb(read(st.Capacity.Page))},
		{api.VerbUsageList, verb(read(st.Usage.List))},
		{api.VerbUsageSummary, verb(read(st.Usage.Summary))},
		{api.VerbBucketGet, verb(func(ctx context.Context, c Caller, q api.BucketRequest) (api.BucketReply, error) {
			return st.Shards.Describe(ctx, bucketKey(c, q))
		})},
		{api.VerbBucketReset, verb(change(func(ctx context.Context, c Caller, q api.BucketRequest) (api.BucketResetReply, error) {
			shards, err := st.Shards.Reset(ctx, c.By, bucketKey(c, q))
			return api.BucketResetReply{Shards: int64(shards)}, err
		}))},

		{api.VerbAuditList, verb(read(st.Audit.List))},
		{api.VerbAuditShow, verb(read(st.Audit.Show))},
		{api.VerbAuditVerify, verb(read(st.Audit.Verify))},

		{api.VerbNamespaceCreate, verb(changeNamespace(s, st.Namespaces.Create))},
		{api.VerbNamespaceDelete, verb(changeNamespace(s, st.Namespaces.Delete))},
		{api.VerbNamespaceRecover, verb(changeNamespace(s, st.Namespaces.Recover))},
		{api.VerbNamespacePurge, verb(changeNamespace(s, st.Namespaces.Purge))},
		{api.VerbNamespaceGet, verb(func(ctx context.Context, _ Caller, q api.NamespaceRequest) (api.Namespace, error) {
			return st.Namespaces.Get(ctx, q.Name)
		})},
		{api.VerbNamespaceList, verb(func(ctx context.Context, _ Caller, q api.NamespaceListRequest) (api.NamespaceListReply, error) {
			return st.Namespaces.List(ctx, q)
		})},
		{api.VerbKeyList, verb(func(ctx context.Context, _ Caller, _ struct{}) (api.LeaseKeyListReply, error) {
			all, err := st.Keys.List(ctx)
			return api.LeaseKeyListReply{Keys: all}, err
		})},
		{api.VerbKeyRotate, verb(change(func(ctx context.Context, c Caller, _ struct{}) (api.LeaseKey, error) {
			return st.Keys.Rotate(ctx, c.By)
		}))},
		{api.VerbKeyRevoke, verb(change(func(ctx context.Context, c Caller, q api.LeaseKeyRevokeRequest) (api.LeaseKeyRevokeReply, error) {
			reply, err := st.Keys.Revoke(ctx, c.By, q.ID)
			if mayHaveChanged(err) {
				s.broadcastOperator(ctx, api.OperatorChange{LeaseKeys: true})
			}
			return reply, err
		}))},
	}
}

// handler answers a decoded request.
type handler[Q, R any] func(context.Context, Caller, Q) (R, error)

// verb returns the function that decodes a request for its handler.
func verb[Q, R any](do handler[Q, R]) serveFunc {
	return func(ctx context.Context, c Caller, body []byte) (any, error) {
		q, err := api.DecodeRequest[Q](body)
		if err != nil {
			return nil, err
		}
		return do(ctx, c, q)
	}
}

// read returns a handler that passes the caller's namespace to a store.
func read[Q, R any](do func(ctx context.Context, namespace string, q Q) (R, error)) handler[Q, R] {
	return func(ctx context.Context, c Caller, q Q) (R, error) { return do(ctx, c.ID, q) }
}

// change returns a handler that refuses a caller who may make no change.
func change[Q, R any](do handler[Q, R]) handler[Q, R] {
	return func(ctx context.Context, c Caller, q Q) (reply R, err error) {
		if c.Named && !c.By.Verified {
			return reply, errUnnamed
		}
		return do(ctx, c, q)
	}
}

// changeLevel returns a handler that changes a config level and broadcasts the level if the
// change was made, or may have been made. A change of an entity's parent or cascade concerns
// all levels of the entity.
func changeLevel[Q, R any](s *Service, do func(context.Context, string, api.Principal, Q) (R, error), level func(Q) api.LimitsTarget) handler[Q, R] {
	return change(func(ctx context.Context, c Caller, q Q) (R, error) {
		reply, err := do(ctx, c.ID, c.By, q)
		if mayHaveChanged(err) {
			s.broadcastLevel(ctx, c, level(q))
		}
		return reply, err
	})
}

// changeNamespace returns a handler that changes a namespace and broadcasts its name if the
// change was made, or may have been made.
func changeNamespace[R any](s *Service, do func(context.Context, string, api.Principal) (R, error)) handler[api.NamespaceRequest, R] {
	return change(func(ctx context.Context, c Caller, q api.NamespaceRequest) (R, error) {
		reply, err := do(ctx, q.Name, c.By)
		if mayHaveChanged(err) {
			s.broadcastOperator(ctx, api.OperatorChange{Name: q.Name})
		}
		return reply, err
	})
}

func mayHaveChanged(err error) bool { return err == nil || errors.Is(err, audit.ErrOutcomeUnknown) }

func bucketKey(c Caller, q api.BucketRequest) keys.Bucket {
	return keys.Bucket{Namespace: c.ID, Entity: q.Entity, Resource: q.Resource}
}

func deleteLimits(store *config.LimitStore) func(context.Context, string, api.Principal, api.LimitsDeleteRequest) (api.LimitsDeleteReply, error) {
	return func(ctx context.Context, ns string, by api.Principal, q api.LimitsDeleteRequest) (api.LimitsDeleteReply, error) {
		err := store.Delete(ctx, ns, by, q)
		return api.LimitsDeleteReply{Deleted: err == nil}, err
	}
}

func deleteEntity(store *config.EntityStore) func(context.Context, string, api.Principal, api.EntityDeleteRequest) (api.EntityDeleteReply, error) {
	return func(ctx context.Context, ns string, by api.Principal, q api.EntityDeleteRequest) (api.EntityDeleteReply, error) {
		err := store.Delete(ctx, ns, by, q)
		return api.EntityDeleteReply{Deleted: err == nil}, err
	}
}

// resolveLimits returns a function that explains which level wins, and lists the stored
// levels after it.
func resolveLimits(store *config.LimitStore) func(context.Context, string, api.LimitsResolveRequest) (api.LimitsResolveReply, error) {
	return func(ctx context.Context, ns string, q api.LimitsResolveRequest) (api.LimitsResolveReply, error) {
		x, err := store.Explain(ctx, ns, q.Entity, q.Resource)
		if err != nil {
			return api.LimitsResolveReply{}, err
		}
		winner := x.Levels[x.Level]
		reply := api.LimitsResolveReply{
			Winner:        winner.LimitsTarget,
			Limits:        winner.Limits,
			OnUnavailable: x.OnUnavailable,
			Levels:        []api.LimitsLevel{winner.LimitsLevel},
		}
		if reply.OnUnavailable == "" {
			reply.OnUnavailable = api.PolicyBlock
		}
		for _, level := range x.Levels {
			if level.Stored && !level.Wins {
				reply.Levels = append(reply.Levels, level.LimitsLevel)
			}
		}
		return reply, nil
	}
}
