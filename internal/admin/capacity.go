package admin

import (
	"context"

	"github.com/tidegate/tidegate/pkg/api"
)

func (a *Admin) capacityGet(ctx context.Context, ns Namespace, q api.CapacityRequest) (api.CapacityReply, error) {
	return a.capacity.Page(ctx, ns.ID, q)
}
