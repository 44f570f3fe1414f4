package bucket

import (
	"cmp"
	"slices"
	"sort"
)

// ShardDrawn is a shard with its drawn count of a limit.
type ShardDrawn struct {
	Shard
	Drawn int64 // millitokens
}

// Pool combines a limit over all shards of a bucket. As long as no shard is full, it
// holds and owes the same as an unsharded bucket: a debt blocks at any number of shards.
type Pool struct {
	Limit  Limit
	Shards []ShardDrawn
}

func (p Pool) balance(i int, now Instant) int64 {
	s := &p.Shards[i]
	return p.Limit.Window(s.Shard, now).Balance(s.Drawn)
}

// Available returns the bucket's balance in millitokens: the sum of all shards'
// balances. The debt of a shard counts against the others. Negative is debt.
func (p Pool) Available(now Instant) int64 {
	var sum int64
	for i := range p.Shards {
		sum += p.balance(i, now)
	}
	return sum
}

// Holds reports whether the bucket holds a cost, 0 or more. A bucket in debt does not
// hold 0. If it returns true, the shards with a positive balance together hold the cost.
func (p Pool) Holds(cost int64, now Instant) bool { return p.Available(now) >= cost }

// RetryAfter returns the smallest number of whole milliseconds after which the
// bucket holds the cost, 0 if it does now; ok is false if it never will,
// because the cost is above the capacity.
func (p Pool) RetryAfter(cost int64, now Instant) (ms int64, ok bool) {
	if cost > p.Limit.Capacity {
		return 0, false
	}
	if len(p.Shards) == 1 && p.Shards[0].Count == 1 {
		return max(0, int64(p.Limit.reached(p.Shards[0].Drawn+cost)-now)), true
	}
	span := p.fullAt(now) - now
	wait := sort.Search(int(span), func(ms int) bool { return p.Holds(cost, now+Instant(ms)) })
	return int64(wait), true
}

// Late returns by how many milliseconds this bucket leaves its debt later than an
// unsharded bucket would, 0 if it is not in debt. The cause is that full shards
// regain nothing while another is in debt; a single shard regains at the full rate.
func (p Pool) Late(now Instant) int64 {
	if p.Available(now) >= 0 {
		return 0
	}
	var drawn int64 // of the unsharded bucket, including the overflow
	for i := range p.Shards {
		s := &p.Shards[i]
		drawn += max(s.Drawn, p.Limit.Window(s.Shard, now).Full())
	}
	divided, _ := p.RetryAfter(0, now)
	return divided - max(0, int64(p.Limit.reached(drawn)-now))
}

// fullAt returns a moment by which every shard is full.
func (p Pool) fullAt(now Instant) Instant {
	latest := now
	for i := range p.Shards {
		latest = max(latest, p.Limit.fullAt(p.Shards[i].Shard, p.Shards[i].Drawn))
	}
	return latest
}

// Take is an amount to draw from a shard.
type Take struct {
	Index  int // of Pool.Shards
	Amount int64
}

// Gather divides a cost over several shards by levelling: it draws from the fullest
// shards first, so that the remaining balances are as even as possible. ok is false
// if the bucket does not hold the cost.
func (p Pool) Gather(cost int64, now Instant) (takes []Take, ok bool) {
	if !p.Holds(cost, now) {
		return nil, false
	}
	type part struct {
		index   int
		balance int64
	}
	parts := make([]part, 0, len(p.Shards))
	for i := range p.Shards {
		if b := p.balance(i, now); b > 0 {
			parts = append(parts, part{i, b})
		}
	}
	slices.SortStableFunc(parts, func(a, b part) int { return cmp.Compare(b.balance, a.balance) })
	// Lower the n fullest shards to the balance of the next until they cover the cost.
	var sum int64
	for n := 1; n <= len(parts); n++ {
		sum += parts[n-1].balance
		next := int64(0)
		if n < len(parts) {
			next = parts[n].balance
		}
		if sum-int64(n)*next < cost {
			continue
		}
		left := sum - cost // stays on the n shards, evenly
		for i := range n {
			keep := (left + int64(i)) / int64(n)
			if take := parts[i].balance - keep; take > 0 {
				takes = append(takes, Take{parts[i].index, take})
			}
		}
		return takes, true
	}
	return takes, true // a cost of 0
}
