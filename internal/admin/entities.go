package admin

import (
	"context"

	"github.com/tidegate/tidegate/pkg/api"
)

func (a *Admin) entityCreate(ctx context.Context, ns Namespace, q api.EntityCreateRequest) (api.Entity, error) {
	e, err := a.entities.Create(ctx, ns.ID, ns.By, q)
	a.changed(ctx, ns, api.LimitsTarget{Entity: q.ID}, err)
	return e, err
}

func (a *Admin) entityUpdate(ctx context.Context, ns Namespace, q api.EntityUpdateRequest) (api.Entity, error) {
	e, err := a.entities.Update(ctx, ns.ID, ns.By, q)
	a.changed(ctx, ns, api.LimitsTarget{Entity: q.ID}, err)
	return e, err
}

func (a *Admin) entityDelete(ctx context.Context, ns Namespace, q api.EntityDeleteRequest) (api.EntityDeleteReply, error) {
	err := a.entities.Delete(ctx, ns.ID, ns.By, q)
	a.changed(ctx, ns, api.LimitsTarget{Entity: q.ID}, err)
	return api.EntityDeleteReply{Deleted: err == nil}, err
}

func (a *Admin) entityGet(ctx context.Context, ns Namespace, q api.EntityGetRequest) (api.Entity, error) {
	return a.entities.Get(ctx, ns.ID, q.ID)
}

func (a *Admin) entityChildren(ctx context.Context, ns Namespace, q api.EntityChildrenRequest) (api.EntityListReply, error) {
	return a.entities.Children(ctx, ns.ID, q)
}

func (a *Admin) entityList(ctx context.Context, ns Namespace, q api.EntityListRequest) (api.EntityListReply, error) {
	return a.entities.List(ctx, ns.ID, q)
}
