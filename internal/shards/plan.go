package shards

import (
	"cmp"
	"math"
	"slices"

	"github.com/tidegate/tidegate/internal/table"
	"github.com/tidegate/tidegate/pkg/bucket"
	"github.com/tidegate/tidegate/pkg/keys"
)

// transactionUnits is what a small item's part in a transaction costs.
const transactionUnits = 2

// ChildOf is the shard that a split of item makes.
func ChildOf(item *table.Bucket) keys.Bucket {
	key := item.Key
	_, child := item.Shard().Split()
	key.Shard = child.Index
	return key
}

// PlanSplit splits a shard at a moment: half of each balance goes to the child.
// Balances do not change in sum, whatever is spent until it is written.
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

// PlanMerge merges shard gone into shard into, both of one level and of the same
// settings. What overflowed at one of them does not fill the other.
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

// mergeLimit merges one limit. A shard that does not have it has forgotten it, and
// was full.
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

// Costs says what is taken of a limit, in millitokens, and whether the limit is
// governed: one that is not has no say.
type Costs func(limit string) (milli int64, governed bool)

// PlanGather takes the costs from the whole of a bucket by levelling, as one
// transaction. It returns nil where the bucket is short of them. Shards that are
// not taken from are not part of it, except one for a limit of which nothing is
// taken: some shard must not be in debt.
func (t Tree) PlanGather(now bucket.Instant, costs Costs, nonce string) *table.Gather {
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
	g := &table.Gather{}
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

// inTokens is what is taken in whole tokens of each shard, if they hold as much:
// leases give back whole ones, and what a shard did not give may overflow there.
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

// solvent is a shard that is not in debt, one that is taken from anyway if there
// is one. The bucket has such a shard.
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
