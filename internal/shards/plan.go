package shards

import (
	"cmp"
	"math"
	"slices"

	"github.com/tidegate/tidegate/internal/table"
	"github.com/tidegate/tidegate/pkg/bucket"
	"github.com/tidegate/tidegate/pkg/keys"
)

// transactionUnits is the cost of a small item in a transaction, in write capacity
// units.
const transactionUnits = 2

// ChildOf returns the key of the shard that a split of item makes.
func ChildOf(item *table.Bucket) keys.Bucket {
	key := item.Key
	_, child := item.Shard().Split()
	key.Shard = child.Index
	return key
}

// PlanSplit plans the split of a shard at a moment: half of each balance goes to
// the child. The sum of the balances does not change, even if tokens are spent
// before the write.
func PlanSplit(now bucket.Instant, item *table.Bucket, nonce string) *table.Split {
	child := &table.Bucket{
		Key: ChildOf(item), Level: 2 * item.Level, Fingerprint: item.Fingerprint,
		Cascade: item.Cascade, Parent: item.Parent, LastWrite: nonce,
		Limits: make([]table.Limit, len(item.Limits)),
	}
	s := &table.Split{
		Key: item.Key, Level: item.Level, Fingerprint: item.Fingerprint, Child: child,
		Limits: make([]table.SplitLimit, len(item.Limits)), WriteUnits: transactionUnits, Nonce: nonce,
	}
	for i := range item.Limits {
		l := &item.Limits[i]
		own, drawn := bucket.SplitDrawn(l.Limit, item.Shard(), l.Drawn, now)
		s.Limits[i] = table.SplitLimit{Limit: l.Limit, Own: own}
		child.Limits[i] = table.Limit{Limit: l.Limit, Drawn: drawn}
	}
	return s
}

// PlanMerge plans the merge of shard gone into shard into. Both have the same split
// level and settings. Tokens that overflowed in a shard do not fill the other
// shard.
func PlanMerge(now bucket.Instant, into, gone *table.Bucket, nonce string) *table.Merge {
	m := &table.Merge{
		Into: into.Key, Gone: gone.Key, Level: into.Level, Fingerprint: into.Fingerprint,
		WriteUnits: transactionUnits, Nonce: nonce,
	}
	for i := range into.Limits {
		l := &into.Limits[i]
		other := gone.Find(l.Name)
		m.Limits = append(m.Limits, mergeLimit(now, l.Limit, into.Shard(), gone.Shard(), l, other))
	}
	for i := range gone.Limits {
		if l := &gone.Limits[i]; into.Find(l.Name) == nil {
			m.Limits = append(m.Limits, mergeLimit(now, l.Limit, into.Shard(), gone.Shard(), nil, l))
		}
	}
	slices.SortFunc(m.Limits, func(a, b table.MergeLimit) int { return cmp.Compare(a.Limit.Name, b.Limit.Name) })
	return m
}

// mergeLimit merges a limit. A shard without the limit has dropped it, and was
// full.
func mergeLimit(now bucket.Instant, l bucket.Limit, into, gone bucket.Shard, stays, goes *table.Limit) table.MergeLimit {
	drawn := func(of *table.Limit, s bucket.Shard) bucket.ShardDrawn {
		if of == nil {
			return bucket.ShardDrawn{Shard: s, Drawn: l.Window(s, now).Full()}
		}
		return bucket.ShardDrawn{Shard: s, Drawn: of.Drawn}
	}
	own := drawn(stays, into)
	change, most := bucket.MergeDrawn(l, own, drawn(goes, gone), now)
	m := table.MergeLimit{
		Limit: l, Change: change, GoneMax: most, GoneExact: goes != nil && goes.Drawn == most,
		MissingInto: stays == nil, MissingGone: goes == nil,
	}
	if m.MissingInto {
		m.Change = bucket.Change{Set: true, Amount: change.Apply(own.Drawn), Min: math.MinInt64, Max: math.MaxInt64}
	}
	return m
}

// Costs returns the cost of a request in a limit, in millitokens, and whether the
// limit applies. A limit that does not apply cannot refuse the request.
type Costs func(limit string) (milli int64, governed bool)

// PlanMultiSpend plans a multi-shard spend: it takes the costs from the whole bucket by
// levelling, in a transaction. It returns nil if the bucket does not have the
// tokens. Shards without a part in the costs are left out, with an exception: if a
// limit applies and costs nothing, a shard without debt in that limit takes part.
func (t Tree) PlanMultiSpend(now bucket.Instant, costs Costs, nonce string) *table.MultiSpend {
	parts := make([]table.Commit, len(t))
	for _, l := range t[0].Limits {
		cost, governed := costs(l.Name)
		if !governed {
			continue
		}
		pool := t.Pool(l.Name)
		takes, ok := pool.Gather(cost, now)
		if !ok {
			return nil
		}
		if cost == 0 {
			takes = []bucket.Take{{Index: solvent(pool, now, parts)}}
		} else {
			takes = inTokens(takes, pool, now)
		}
		for _, take := range takes {
			s := pool.Shards[take.Index]
			tally := bucket.NewTally(l.Window(s.Shard, now), s.Drawn)
			tally.Spend(take.Amount)
			part := &parts[take.Index]
			part.Limits = append(part.Limits, table.LimitChange{Name: l.Name, Change: tally.Change(), Consumed: tally.Consumed()})
		}
	}
	g := &table.MultiSpend{}
	for i := range parts {
		c := &parts[i]
		if len(c.Limits) == 0 {
			continue
		}
		c.Key, c.Level, c.Fingerprint, c.Guarded = t[i].Key, t[i].Level, t[i].Fingerprint, true
		c.WriteUnits, c.Nonce = transactionUnits, nonce
		if len(g.Parts) == 0 {
			c.Acquires = 1
		}
		g.Parts = append(g.Parts, *c)
	}
	return g
}

// inTokens rounds the parts of shards to whole tokens, if the shards have them.
// Leases return whole tokens; a shard that gets back more than it gave may
// overflow.
func inTokens(takes []bucket.Take, p bucket.Pool, now bucket.Instant) []bucket.Take {
	whole := slices.Clone(takes)
	var missing int64
	for i := range whole {
		part := whole[i].Amount % bucket.Milli
		whole[i].Amount -= part
		missing += part
	}
	for i := range whole {
		s := p.Shards[whole[i].Index]
		room := p.Limit.Window(s.Shard, now).Balance(s.Drawn) - whole[i].Amount
		if more := min(missing, bucket.Milli); more == bucket.Milli && room >= more {
			whole[i].Amount += more
			missing -= more
		}
	}
	if missing > 0 {
		return takes
	}
	return slices.DeleteFunc(whole, func(t bucket.Take) bool { return t.Amount == 0 })
}

// solvent returns a shard without debt, preferably a shard that takes part already.
// The bucket has such a shard.
func solvent(p bucket.Pool, now bucket.Instant, parts []table.Commit) int {
	found := -1
	for i, s := range p.Shards {
		if p.Limit.Window(s.Shard, now).Balance(s.Drawn) < 0 {
			continue
		}
		if len(parts[i].Limits) > 0 {
			return i
		}
		if found < 0 {
			found = i
		}
	}
	return found
}
