package admin

import (
	"context"

	"github.com/tidegate/tidegate/pkg/api"
)

func (a *Admin) keyList(ctx context.Context, _ Namespace, _ struct{}) (api.LeaseKeyListReply, error) {
	all, err := a.keys.List(ctx)
	return api.LeaseKeyListReply{Keys: all}, err
}

func (a *Admin) keyRotate(ctx context.Context, ns Namespace, _ struct{}) (api.LeaseKey, error) {
	return a.keys.Rotate(ctx, ns.By)
}
