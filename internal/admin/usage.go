package admin

import (
	"context"

	"github.com/tidegate/tidegate/pkg/api"
)

func (a *Admin) usageList(ctx context.Context, ns Namespace, q api.UsageRequest) (api.UsageListReply, error) {
	return a.usage.List(ctx, ns.ID, q)
}

func (a *Admin) usageSummary(ctx context.Context, ns Namespace, q api.UsageRequest) (api.UsageSummaryReply, error) {
	return a.usage.Summary(ctx, ns.ID, q)
}
