package admission

import (
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/tidegate/tidegate/internal/shards"
	"github.com/tidegate/tidegate/pkg/bucket"
)

// settleTime is how long a new number of shards is given to take effect before
// more throttles ask for more: a partition's rate is one per second.
const settleTime = 2 * time.Second

// relieve doubles the shards of a bucket, one of which is written more often than
// its partition lets through. The sharder does that before it comes so far; this
// is for a load that came too suddenly. It does not wait.
func (c *committer) relieve(calls []*call) {
	first := c.shard(0)
	settings := c.settings.Load()
	if settings == nil || len(settings.Limits) == 0 || !first.relieving.CompareAndSwap(false, true) {
		return
	}
	costs := first.recentCosts()
	for _, q := range calls {
		for _, a := range q.amounts {
			costs[a.Name] = max(costs[a.Name], a.Tokens)
		}
	}
	cost := func(limit string) int64 { return costs[limit] * bucket.Milli }
	c.node.flights.Go(func() {
		defer first.relieving.Store(false)
		ctx, cancel := context.WithTimeout(c.node.abort, settleTime)
		defer cancel()
		tree, err := first.tree(ctx)
		if err != nil || len(tree) == 0 {
			return // a bucket that is not there yet has nothing to divide
		}
		from, now := tree.Wanted(), c.node.clock.Mono()
		was := first.relieved.Load()
		if was == nil {
			was = &relief{wanted: 1, at: now - settleTime}
		}
		if was.wanted != from { // others did it
			first.noteWanted(from)
			return
		}
		if now-was.at < settleTime {
			return
		}
		// Nodes that meet on a shard while others rest are not helped by more of them.
		if first.heatedWithin(settleTime/2).count()*2 <= from {
			return
		}
		if !shards.Serves(settings.Limits, 2*from, cost) {
			return
		}
		if _, err = first.node.shards.Double(ctx, first.key, from); err != nil {
			first.node.logStore(ctx, "double the shards", first.key, err)
		}
		first.relieved.Store(&relief{wanted: 2 * from, at: c.node.clock.Mono()})
		first.whole.Store(nil)
	})
}

// relief is a number of shards and since when a node knows of it, monotonic.
type relief struct {
	wanted int
	at     time.Duration
}

// noteWanted notes how many shards are wanted, as they are seen: who was not throttled
// before another node doubled them does not wait anew when it is; c is shard 0.
func (c *committer) noteWanted(count int) {
	if was := c.relieved.Load(); was == nil || was.wanted != count {
		c.relieved.Store(&relief{wanted: count, at: c.node.clock.Mono()})
	}
}

// isHot reports a throttle that says that the item's own partition is written too
// often. A throttled index or table is not helped by more shards.
func isHot(err error) bool {
	var provisioned *types.ProvisionedThroughputExceededException
	var throttling *types.ThrottlingException
	var reasons []types.ThrottlingReason
	switch {
	case errors.As(err, &provisioned):
		reasons = provisioned.ThrottlingReasons
	case errors.As(err, &throttling):
		reasons = throttling.ThrottlingReasons
	}
	return slices.ContainsFunc(reasons, func(r types.ThrottlingReason) bool {
		return strings.HasPrefix(aws.ToString(r.Reason), "TableWriteKeyRange")
	})
}
