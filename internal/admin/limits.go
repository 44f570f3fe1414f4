package admin

import (
	"context"
	"errors"

	"github.com/tidegate/tidegate/internal/limits"
	"github.com/tidegate/tidegate/pkg/api"
)

func (a *Admin) limitsSet(ctx context.Context, ns Namespace, q api.LimitsSetRequest) (api.LimitsLevel, error) {
	level, err := a.limits.Set(ctx, ns.ID, q)
	a.changed(ctx, ns, q.LimitsTarget, err)
	return level, err
}

func (a *Admin) limitsDelete(ctx context.Context, ns Namespace, q api.LimitsDeleteRequest) (api.LimitsDeleteReply, error) {
	err := a.limits.Delete(ctx, ns.ID, q.LimitsTarget)
	a.changed(ctx, ns, q.LimitsTarget, err)
	return api.LimitsDeleteReply{Deleted: err == nil}, err
}

// changed broadcasts a change that was made, or that may have been.
func (a *Admin) changed(ctx context.Context, ns Namespace, target api.LimitsTarget, err error) {
	if err == nil || errors.Is(err, limits.ErrOutcomeUnknown) {
		a.broadcast(ctx, ns, target)
	}
}

func (a *Admin) limitsGet(ctx context.Context, ns Namespace, q api.LimitsGetRequest) (api.LimitsLevel, error) {
	return a.limits.Get(ctx, ns.ID, q.LimitsTarget)
}

func (a *Admin) limitsList(ctx context.Context, ns Namespace, q api.LimitsListRequest) (api.LimitsListReply, error) {
	return a.limits.List(ctx, ns.ID, q)
}

func (a *Admin) limitsResolve(ctx context.Context, ns Namespace, q api.LimitsResolveRequest) (api.LimitsResolveReply, error) {
	x, err := a.limits.Explain(ctx, ns.ID, q.Entity, q.Resource)
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
