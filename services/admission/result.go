package admission

import (
	"slices"

	"github.com/tidegate/tidegate/internal/config"
	"github.com/tidegate/tidegate/internal/shards"
	"github.com/tidegate/tidegate/internal/table"
	"github.com/tidegate/tidegate/pkg/api"
	"github.com/tidegate/tidegate/pkg/bucket"
)

// result is the answer to an operation on a bucket: the answer of a shard, and the last
// snapshots of the others.
type result struct {
	shardResult
	// others are the other shards of the bucket, as far as they are known.
	others []*table.Bucket
	// parts are the writes of a transaction over several shards, the item's among them.
	parts []table.Commit
}

// shown returns a bucket of a single shard as a result.
func shown(v verdict, now bucket.Instant, settings *config.Resolved, item *table.Bucket) result {
	return result{shardResult: shardResult{verdict: v, settings: settings, item: item, now: now}}
}

// shownTree returns a whole bucket as a result.
func shownTree(v verdict, now bucket.Instant, settings *config.Resolved, tree shards.Tree) result {
	res := shown(v, now, settings, tree[0])
	res.addOthers(tree)
	return res
}

// addOthers adds the other shards of the tree.
func (r *result) addOthers(tree shards.Tree) {
	r.others = make([]*table.Bucket, 0, len(tree))
	for _, b := range tree {
		if b.Key.Shard != r.item.Key.Shard {
			r.others = append(r.others, b)
		}
	}
}

// pool returns limit i over the shards of the bucket, after the operation's own spend.
func (r *result) pool(i int) bucket.Pool {
	l := &r.item.Limits[i]
	p := bucket.Pool{Limit: l.Limit, Shards: append(make([]bucket.ShardDrawn, 0, 1+len(r.others)), bucket.ShardDrawn{Shard: r.item.Shard(), Drawn: r.drawn(i)})}
	for _, b := range r.others {
		if l := b.Find(l.Name); l != nil {
			p.Shards = append(p.Shards, bucket.ShardDrawn{Shard: b.Shard(), Drawn: l.Drawn})
		}
	}
	return p
}

// available returns the balance of limit i after the operation's own spend, in
// millitokens.
func (r *result) available(i int) int64 { return r.pool(i).Available(r.now) }

// holds reports whether all limits hold the amounts.
func (r *result) holds(amounts api.Amounts) bool {
	for i := range r.item.Limits {
		if r.governed(i) && !r.pool(i).Holds(costOf(amounts, r.item.Limits[i].Name), r.now) {
			return false
		}
	}
	return true
}

// indebted reports whether a shard is in debt of a limit that applies.
func (r *result) indebted() bool {
	inDebt := func(b *table.Bucket) bool {
		return slices.ContainsFunc(b.Limits, func(l table.Limit) bool {
			return (r.settings == nil || r.settings.Governs(l.Name)) && l.Window(b.Shard(), r.now).Balance(l.Drawn) < 0
		})
	}
	return inDebt(r.item) || slices.ContainsFunc(r.others, inDebt)
}

// isLate reports whether a debt blocks the bucket for longer than it would block a bucket
// of a single shard: full shards regain nothing while another is in debt.
func (r *result) isLate() bool {
	for i := range r.item.Limits {
		if r.governed(i) && r.pool(i).Late(r.now) > lateMs {
			return true
		}
	}
	return false
}

// spent returns the part of each shard in an acquire of amounts, the item's first. A
// transaction takes parts of tokens from several shards; each counts in whole tokens, no
// more than the amounts in sum.
func (r *result) spent(amounts api.Amounts) []spentPart {
	whole := spentPart{shard: r.item.Key.Shard, held: make(api.Amounts, 0, len(r.item.Limits))}
	for i := range r.item.Limits {
		if r.governed(i) {
			name := r.item.Limits[i].Name
			tokens, _ := amounts.Get(name)
			whole.held = append(whole.held, api.Amount{Name: name, Tokens: tokens})
		}
	}
	if r.parts == nil {
		return []spentPart{whole}
	}
	parts := make([]spentPart, len(r.parts))
	for i := range parts {
		parts[i] = spentPart{shard: r.parts[i].Key.Shard, held: make(api.Amounts, len(whole.held))}
	}
	for n, h := range whole.held {
		var taken, held int64 // milli, tokens
		for i := range parts {
			taken += consumedOf(&r.parts[i], h.Name)
			tokens := bucket.Floor(taken) - held
			held += tokens
			parts[i].held[n] = api.Amount{Name: h.Name, Tokens: tokens}
		}
	}
	return parts
}

// consumedOf returns the tokens that a write takes of a limit, in millitokens.
func consumedOf(c *table.Commit, limit string) int64 {
	for i := range c.Limits {
		if c.Limits[i].Name == limit {
			return c.Limits[i].Consumed
		}
	}
	return 0
}

// statuses lists the limits of a level, by name, as an answer to amounts.
func (r *result) statuses(amounts api.Amounts) []api.LimitStatus {
	statuses := make([]api.LimitStatus, 0, len(r.item.Limits))
	for i := range r.item.Limits {
		if !r.governed(i) {
			continue
		}
		l := &r.item.Limits[i]
		tokens, _ := amounts.Get(l.Name)
		statuses = append(statuses, api.LimitStatus{
			Entity:    r.item.Key.Entity,
			Name:      l.Name,
			Capacity:  bucket.Floor(l.Capacity),
			Requested: tokens,
			Available: bucket.Floor(r.available(i)),
		})
	}
	return statuses
}

// neverMs is the wait for an acquire that can never pass.
const neverMs int64 = -1

// verdictOf marks the limits that are short of the amounts, and returns in how many
// milliseconds all of them would hold the amounts.
func (r *result) verdictOf(amounts api.Amounts) (statuses []api.LimitStatus, waitMs int64, allowed bool) {
	statuses, allowed = r.statuses(amounts), true
	next := 0
	for i := range r.item.Limits {
		if !r.governed(i) {
			continue
		}
		status := &statuses[next]
		next++
		pool, cost := r.pool(i), status.Requested*bucket.Milli
		if pool.Holds(cost, r.now) {
			continue
		}
		ms, ever := pool.RetryAfter(cost, r.now)
		if !ever {
			ms = neverMs
		}
		allowed, status.Exceeded, status.Never, status.RetryAfterMs = false, true, !ever, ms
		waitMs = longer(waitMs, ms)
	}
	return statuses, waitMs, allowed
}

// verdictOver is verdictOf over several levels: all limits of all levels, in how many
// milliseconds all of them would hold the amounts, and whether they do now. States of
// different moments count as of the latest of them: balances only grow by themselves.
func verdictOver(levels []*result, amounts api.Amounts) (statuses []api.LimitStatus, waitMs int64, allowed bool) {
	now := levels[0].now
	for _, l := range levels {
		now = max(now, l.now)
	}
	allowed = true
	for _, l := range levels {
		l.now, l.later = now, nil
		of, wait, holds := l.verdictOf(amounts)
		statuses = append(statuses, of...)
		waitMs, allowed = longer(waitMs, wait), allowed && holds
	}
	return statuses, waitMs, allowed
}

// longer returns the longer of two waits; never is the longest.
func longer(a, b int64) int64 {
	if a == neverMs || b == neverMs {
		return neverMs
	}
	return max(a, b)
}
