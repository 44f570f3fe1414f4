package tidegate

import (
	"context"

	"github.com/tidegate/tidegate/pkg/api"
)

// Admin reads and changes the data of a namespace: limits, policies, entities, usage
// and the audit log. Its requests need permissions of their own. Every method can fail
// with an *Error or an *UnavailableError.
type Admin struct{ Reports }

// Admin returns the client's access to stored data.
func (c *Client) Admin() Admin { return Admin{Reports{c}} }

// SetLimits replaces all limits of a config level, and its policy if given. It returns
// the level as stored. After a lost reply the limits may or may not be set; it is safe
// to set them again.
func (a Admin) SetLimits(ctx context.Context, q api.LimitsSetRequest) (api.LimitsLevel, error) {
	return ask[api.LimitsLevel](ctx, a.c, api.VerbLimitsSet, q)
}

// GetLimits reads a config level. If the level has no limits, the error is an *Error
// with the code not_found.
func (a Admin) GetLimits(ctx context.Context, level api.LimitsTarget) (api.LimitsLevel, error) {
	return ask[api.LimitsLevel](ctx, a.c, api.VerbLimitsGet, api.LimitsGetRequest{LimitsTarget: level})
}

// DeleteLimits deletes all limits of a config level, so that the next level applies. If
// the level has no limits, the error is an *Error with the code not_found.
func (a Admin) DeleteLimits(ctx context.Context, q api.LimitsDeleteRequest) error {
	_, err := ask[api.LimitsDeleteReply](ctx, a.c, api.VerbLimitsDelete, q)
	return err
}

// ListLimits reads a page of the config levels that have limits. The reply's cursor
// requests the next page; it is empty on the last.
func (a Admin) ListLimits(ctx context.Context, q api.LimitsListRequest) (api.LimitsListReply, error) {
	return ask[api.LimitsListReply](ctx, a.c, api.VerbLimitsList, q)
}

// ResolveLimits says which limits hold for an entity and a resource, and from
// which level.
func (a Admin) ResolveLimits(ctx context.Context, entity, resource string) (api.LimitsResolveReply, error) {
	return ask[api.LimitsResolveReply](ctx, a.c, api.VerbLimitsResolve, api.LimitsResolveRequest{Entity: entity, Resource: resource})
}

// CreateEntity creates an entity and returns it. If the entity exists, the error is an
// *Error with the code already_exists, also on a repeat after a lost reply.
func (a Admin) CreateEntity(ctx context.Context, q api.EntityCreateRequest) (api.Entity, error) {
	return ask[api.Entity](ctx, a.c, api.VerbEntityCreate, q)
}

// GetEntity reads an entity. If it was never created, the error is an *Error with the
// code not_found; an entity can spend without being created.
func (a Admin) GetEntity(ctx context.Context, entity string) (api.Entity, error) {
	return ask[api.Entity](ctx, a.c, api.VerbEntityGet, api.EntityGetRequest{ID: entity})
}

// UpdateEntity changes the fields set in the request and returns the entity.
func (a Admin) UpdateEntity(ctx context.Context, q api.EntityUpdateRequest) (api.Entity, error) {
	return ask[api.Entity](ctx, a.c, api.VerbEntityUpdate, q)
}

// DeleteEntity takes an entity away; its limits and balances stay.
func (a Admin) DeleteEntity(ctx context.Context, q api.EntityDeleteRequest) error {
	_, err := ask[api.EntityDeleteReply](ctx, a.c, api.VerbEntityDelete, q)
	return err
}

// ListChildren reads a page of an entity's children. The reply's cursor requests the
// next page; it is empty on the last.
func (a Admin) ListChildren(ctx context.Context, q api.EntityChildrenRequest) (api.EntityListReply, error) {
	return ask[api.EntityListReply](ctx, a.c, api.VerbEntityChildren, q)
}

// ListEntities reads a page of all entities, as ListChildren does.
func (a Admin) ListEntities(ctx context.Context, q api.EntityListRequest) (api.EntityListReply, error) {
	return ask[api.EntityListReply](ctx, a.c, api.VerbEntityList, q)
}

// ListAudit reads a page of audit events, newest first. The reply's cursor requests the
// next page; it is empty on the last.
func (a Admin) ListAudit(ctx context.Context, q api.AuditListRequest) (api.AuditListReply, error) {
	return ask[api.AuditListReply](ctx, a.c, api.VerbAuditList, q)
}

// VerifyAudit checks a part of the namespace's audit events. The reply's cursor requests
// the next part.
func (a Admin) VerifyAudit(ctx context.Context, q api.AuditVerifyRequest) (api.AuditVerifyReply, error) {
	return ask[api.AuditVerifyReply](ctx, a.c, api.VerbAuditVerify, q)
}

// ShowAudit reads an audit event by its id and reports whether its seal is intact.
func (a Admin) ShowAudit(ctx context.Context, id string) (api.AuditShowReply, error) {
	return ask[api.AuditShowReply](ctx, a.c, api.VerbAuditShow, api.AuditShowRequest{ID: id})
}

// Bucket reads the bucket of an entity and a resource, shard by shard.
func (a Admin) Bucket(ctx context.Context, entity, resource string) (api.BucketReply, error) {
	return ask[api.BucketReply](ctx, a.c, api.VerbBucketGet, api.BucketRequest{Entity: entity, Resource: resource})
}

// ResetBucket refills a bucket, merges it into a single shard, and returns the previous
// number of shards: 0 if the bucket did not exist. Nodes may deny from their known state
// for another second. After a lost reply the reset may or may not be done; a repeat also
// forgives the spending since.
func (a Admin) ResetBucket(ctx context.Context, entity, resource string) (shards int64, err error) {
	reply, err := ask[api.BucketResetReply](ctx, a.c, api.VerbBucketReset, api.BucketRequest{Entity: entity, Resource: resource})
	return reply.Shards, err
}

// SetPolicy changes the policies of a level that are named, and leaves all else
// as it is. It returns the level's policies as stored. If the reply is lost, they
// may be set all the same; setting again is safe.
func (a Admin) SetPolicy(ctx context.Context, q api.PolicySetRequest) (api.PolicyLevel, error) {
	return ask[api.PolicyLevel](ctx, a.c, api.VerbPolicySet, q)
}

// GetPolicy reads the policies of a config level. If the level has no policies, the
// error is an *Error with the code not_found.
func (a Admin) GetPolicy(ctx context.Context, level api.LimitsTarget) (api.PolicyLevel, error) {
	return ask[api.PolicyLevel](ctx, a.c, api.VerbPolicyGet, api.PolicyGetRequest{LimitsTarget: level})
}
