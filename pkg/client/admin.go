package tidegate

import (
	"context"

	"github.com/tidegate/tidegate/pkg/api"
)

// Admin changes and reads what a namespace stores: limits, policies and
// entities; and reads who changed them. Its requests need permissions of their own;
// all may fail with an *Error or *UnavailableError.
type Admin struct{ c *Client }

// Admin is the client's access to what is stored.
func (c *Client) Admin() Admin { return Admin{c} }

// SetLimits replaces all limits of a level, and its policy if one is given. It
// returns the level as stored. If the reply is lost, it may be set all the same;
// setting again is safe.
func (a Admin) SetLimits(ctx context.Context, q api.LimitsSetRequest) (api.LimitsLevel, error) {
	return ask[api.LimitsLevel](ctx, a.c, api.VerbLimitsSet, q)
}

// GetLimits reads one level. One without limits is an *Error with the code
// not_found.
func (a Admin) GetLimits(ctx context.Context, level api.LimitsTarget) (api.LimitsLevel, error) {
	return ask[api.LimitsLevel](ctx, a.c, api.VerbLimitsGet, api.LimitsGetRequest{LimitsTarget: level})
}

// DeleteLimits takes all limits from a level, so that the next one holds. One
// without limits is an *Error with the code not_found.
func (a Admin) DeleteLimits(ctx context.Context, q api.LimitsDeleteRequest) error {
	_, err := ask[api.LimitsDeleteReply](ctx, a.c, api.VerbLimitsDelete, q)
	return err
}

// ListLimits reads one page of the levels that have limits. The reply's cursor
// asks for the next page; it is empty on the last.
func (a Admin) ListLimits(ctx context.Context, q api.LimitsListRequest) (api.LimitsListReply, error) {
	return ask[api.LimitsListReply](ctx, a.c, api.VerbLimitsList, q)
}

// ResolveLimits says which limits hold for an entity and a resource, and from
// which level.
func (a Admin) ResolveLimits(ctx context.Context, entity, resource string) (api.LimitsResolveReply, error) {
	return ask[api.LimitsResolveReply](ctx, a.c, api.VerbLimitsResolve, api.LimitsResolveRequest{Entity: entity, Resource: resource})
}

// CreateEntity makes an entity and returns it. One that is there is an *Error
// with the code already_exists; so is, after a lost reply, the one just made.
func (a Admin) CreateEntity(ctx context.Context, q api.EntityCreateRequest) (api.Entity, error) {
	return ask[api.Entity](ctx, a.c, api.VerbEntityCreate, q)
}

// GetEntity reads an entity. One that nobody created is an *Error with the code
// not_found; it may spend all the same.
func (a Admin) GetEntity(ctx context.Context, entity string) (api.Entity, error) {
	return ask[api.Entity](ctx, a.c, api.VerbEntityGet, api.EntityGetRequest{ID: entity})
}

// UpdateEntity changes what the request names, and returns the entity.
func (a Admin) UpdateEntity(ctx context.Context, q api.EntityUpdateRequest) (api.Entity, error) {
	return ask[api.Entity](ctx, a.c, api.VerbEntityUpdate, q)
}

// DeleteEntity takes an entity away; its limits and balances stay.
func (a Admin) DeleteEntity(ctx context.Context, q api.EntityDeleteRequest) error {
	_, err := ask[api.EntityDeleteReply](ctx, a.c, api.VerbEntityDelete, q)
	return err
}

// ListChildren reads one page of the entities whose parent it is. The reply's
// cursor asks for the next page; it is empty on the last.
func (a Admin) ListChildren(ctx context.Context, q api.EntityChildrenRequest) (api.EntityListReply, error) {
	return ask[api.EntityListReply](ctx, a.c, api.VerbEntityChildren, q)
}

// ListEntities reads one page of all entities, as ListChildren does.
func (a Admin) ListEntities(ctx context.Context, q api.EntityListRequest) (api.EntityListReply, error) {
	return ask[api.EntityListReply](ctx, a.c, api.VerbEntityList, q)
}

// ListAudit reads one page of audit events, the newest first. The reply's cursor
// asks for the next page; it is empty on the last.
func (a Admin) ListAudit(ctx context.Context, q api.AuditListRequest) (api.AuditListReply, error) {
	return ask[api.AuditListReply](ctx, a.c, api.VerbAuditList, q)
}

// VerifyAudit checks one part of the namespace's audit events. The reply's cursor
// leads to the next.
func (a Admin) VerifyAudit(ctx context.Context, q api.AuditVerifyRequest) (api.AuditVerifyReply, error) {
	return ask[api.AuditVerifyReply](ctx, a.c, api.VerbAuditVerify, q)
}

// ShowAudit reads one audit event by its id, and whether it is as it was written.
func (a Admin) ShowAudit(ctx context.Context, id string) (api.AuditShowReply, error) {
	return ask[api.AuditShowReply](ctx, a.c, api.VerbAuditShow, api.AuditShowRequest{ID: id})
}

// Capacity reads one page of what the entities that have spent from a resource
// hold of it. The reply's cursor asks for the next page; it is empty on the
// last. Entities that never spent, or have long been full again, are not in it.
func (a Admin) Capacity(ctx context.Context, q api.CapacityRequest) (api.CapacityReply, error) {
	return ask[api.CapacityReply](ctx, a.c, api.VerbCapacity, q)
}

// Bucket reads the bucket of an entity and a resource, shard by shard.
func (a Admin) Bucket(ctx context.Context, entity, resource string) (api.BucketReply, error) {
	return ask[api.BucketReply](ctx, a.c, api.VerbBucketGet, api.BucketRequest{Entity: entity, Resource: resource})
}

// ResetBucket makes a bucket full again, and of one shard, and returns how many it
// had: 0 where nobody had spent from it, and nothing was to be done. Nodes may deny
// by what they knew for another second. If the reply is lost, it may be done all the
// same; doing it again forgives what was spent since.
func (a Admin) ResetBucket(ctx context.Context, entity, resource string) (shards int64, err error) {
	reply, err := ask[api.BucketResetReply](ctx, a.c, api.VerbBucketReset, api.BucketRequest{Entity: entity, Resource: resource})
	return reply.Shards, err
}

// Usage reads one page of what an entity used, window by window. The reply's
// cursor asks for the next page; it is empty on the last. What was spent in the
// last seconds may not be in it yet.
func (a Admin) Usage(ctx context.Context, q api.UsageRequest) (api.UsageListReply, error) {
	return ask[api.UsageListReply](ctx, a.c, api.VerbUsageList, q)
}

// UsageSummary sums up one page of what Usage reads. The reply's cursor asks for
// the next page, whose totals are added by [api.UsageTotals.Add]; it is empty on
// the last.
func (a Admin) UsageSummary(ctx context.Context, q api.UsageRequest) (api.UsageSummaryReply, error) {
	return ask[api.UsageSummaryReply](ctx, a.c, api.VerbUsageSummary, q)
}

// SetPolicy changes the policies of a level that are named, and leaves all else
// as it is. It returns the level's policies as stored. If the reply is lost, they
// may be set all the same; setting again is safe.
func (a Admin) SetPolicy(ctx context.Context, q api.PolicySetRequest) (api.PolicyLevel, error) {
	return ask[api.PolicyLevel](ctx, a.c, api.VerbPolicySet, q)
}

// GetPolicy reads the policies of one level. One without any is an *Error with
// the code not_found.
func (a Admin) GetPolicy(ctx context.Context, level api.LimitsTarget) (api.PolicyLevel, error) {
	return ask[api.PolicyLevel](ctx, a.c, api.VerbPolicyGet, api.PolicyGetRequest{LimitsTarget: level})
}
