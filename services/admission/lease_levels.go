package admission

import (
	"github.com/tidegate/tidegate/internal/table"
	"github.com/tidegate/tidegate/pkg/api"
	"github.com/tidegate/tidegate/pkg/bucket"
)

// leaseLevels returns the levels of a lease for a bucket that an acquire of amounts spent
// from, shard by shard.
func leaseLevels(r *result, amounts api.Amounts) []leaseLevel {
	whole := leaseLevelOf(r, amounts)
	if r.parts == nil {
		return []leaseLevel{whole}
	}
	spent := r.spent(amounts)
	levels := make([]leaseLevel, len(spent))
	for i, part := range spent {
		levels[i] = whole
		levels[i].Shard = part.shard
		levels[i].Held = make([]heldTokens, len(part.held))
		for n, h := range part.held {
			levels[i].Held[n] = heldTokens{Limit: h.Name, Tokens: h.Tokens}
		}
	}
	return levels
}

// leaseLevelOf returns the level of a lease for a shard that an acquire of amounts spent
// from.
func leaseLevelOf(r *result, amounts api.Amounts) leaseLevel {
	level := leaseLevel{
		Entity:   r.item.Key.Entity,
		Resource: r.item.Key.Resource,
		Shard:    r.item.Key.Shard,
		Held:     make([]heldTokens, 0, len(r.item.Limits)),
	}
	for i := range r.item.Limits {
		if r.governed(i) {
			name := r.item.Limits[i].Name
			tokens, _ := amounts.Get(name)
			level.Held = append(level.Held, heldTokens{Limit: name, Tokens: tokens})
		}
	}
	if _, override := baseResource(level.Resource); override {
		level.Brought = broughtTo(r.item)
	}
	return level
}

// broughtTo returns the limits of an override bucket for its lease.
func broughtTo(item *table.Bucket) []broughtLimit {
	brought := make([]broughtLimit, len(item.Limits))
	for i := range item.Limits {
		l := &item.Limits[i]
		brought[i] = broughtLimit{Name: l.Name, Capacity: l.Capacity, Refill: l.Refill, Period: l.Period}
	}
	return brought
}

// givenBy returns the limits that a lease remembers for its bucket; nil for stored limits.
func givenBy(brought []broughtLimit) []bucket.Limit {
	if len(brought) == 0 {
		return nil
	}
	given := make([]bucket.Limit, len(brought))
	for i, b := range brought {
		given[i] = bucket.Limit{Name: b.Name, Capacity: b.Capacity, Refill: b.Refill, Period: b.Period}
	}
	return given
}
