package admin

import (
	"context"

	"github.com/tidegate/tidegate/pkg/api"
)

func (a *Admin) limitsSet(ctx context.Context, ns Namespace, q api.LimitsSetRequest) (api.LimitsLevel, error) {
	level, err := a.limits.Set(ctx, ns.ID, ns.By, q)
	a.changed(ctx, ns, q.LimitsTarget, err)
	return level, err
}

func (a *Admin) limitsDelete(ctx context.Context, ns Namespace, q api.LimitsDeleteRequest) (api.LimitsDeleteReply, error) {
	err := a.limits.Delete(ctx, ns.ID, ns.By, q)
	a.changed(ctx, ns, q.LimitsTarget, err)
	return api.LimitsDeleteReply{Deleted: err == nil}, err
}

func (a *Admin) policySet(ctx context.Context, ns Namespace, q api.PolicySetRequest) (api.PolicyLevel, error) {
	level, err := a.limits.SetPolicy(ctx, ns.ID, ns.By, q)
	a.changed(ctx, ns, q.LimitsTarget, err)
	return level, err
}

func (a *Admin) policyGet(ctx context.Context, ns Namespace, q api.PolicyGetRequest) (api.PolicyLevel, error) {
	return a.limits.Policy(ctx, ns.ID, q.LimitsTarget)
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
