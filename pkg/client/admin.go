package tidegate

import (
	"context"

	"github.com/tidegate/tidegate/pkg/api"
)

// Admin changes and reads the limits that a namespace stores. Its requests need
// permissions of their own; all may fail with an *Error or *UnavailableError.
type Admin struct{ c *Client }

// Admin is the client's access to stored limits.
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
func (a Admin) DeleteLimits(ctx context.Context, level api.LimitsTarget) error {
	_, err := ask[api.LimitsDeleteReply](ctx, a.c, api.VerbLimitsDelete, api.LimitsDeleteRequest{LimitsTarget: level})
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
