package shards

import (
	"slices"

	"github.com/tidegate/tidegate/pkg/bucket"
)

// Serves reports whether limits are large enough for a number of shards: the share
// of each shard must be at least a token and the cost of a request, in millitokens.
// With more shards every request would become a multi-shard spend, which writes to
// all shards and relieves no shard.
func Serves(limits []bucket.Limit, count int, cost func(limit string) int64) bool {
	return count <= bucket.MaxShards && !slices.ContainsFunc(limits, func(l bucket.Limit) bool {
		return l.Capacity/int64(count) < max(bucket.Milli, cost(l.Name))
	})
}
