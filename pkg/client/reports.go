package tidegate

import (
	"context"

	"github.com/tidegate/tidegate/pkg/api"
)

// Reports reads the balances and the usage of a namespace. [Admin] embeds it.
type Reports struct{ c *Client }

// Capacity reads a page of the balances that entities have on a resource. The reply's
// cursor requests the next page; it is empty on the last. Entities that never spent, or
// whose buckets have long been full again, are left out.
func (r Reports) Capacity(ctx context.Context, q api.CapacityRequest) (api.CapacityReply, error) {
	return ask[api.CapacityReply](ctx, r.c, api.VerbCapacity, q)
}

// Usage reads a page of an entity's usage, window by window. The reply's cursor requests
// the next page; it is empty on the last. Usage of the last seconds may be missing.
func (r Reports) Usage(ctx context.Context, q api.UsageRequest) (api.UsageListReply, error) {
	return ask[api.UsageListReply](ctx, r.c, api.VerbUsageList, q)
}

// UsageSummary sums up a page of [Reports.Usage]. The reply's cursor requests the next
// page, whose totals [api.UsageTotals.Add] adds; it is empty on the last.
func (r Reports) UsageSummary(ctx context.Context, q api.UsageRequest) (api.UsageSummaryReply, error) {
	return ask[api.UsageSummaryReply](ctx, r.c, api.VerbUsageSummary, q)
}
