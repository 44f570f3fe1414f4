package shards

import (
	"slices"

	"github.com/tidegate/tidegate/pkg/bucket"
)

// Serves reports whether limits are large enough for a bucket of so many shards: a
// share of each is one token at least, and holds what a request costs of it, in
// millitokens. More shards than that would make every request gather, which
// writes to all of them, and relieve none.
func Serves(limits []bucket.Limit, count int, cost func(limit string) int64) bool {
	return count <= bucket.MaxShards && !slices.ContainsFunc(limits, func(l bucket.Limit) bool {
		return l.Capacity/int64(count) < max(bucket.Milli, cost(l.Name))
	})
}
