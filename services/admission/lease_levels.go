package admission

import (
	"github.com/tidegate/tidegate/internal/table"
	"github.com/tidegate/tidegate/pkg/api"
	"github.com/tidegate/tidegate/pkg/bucket"
	"github.com/tidegate/tidegate/services/admission/lease"
)

// leaseLevels returns the levels of a lease for a bucket that an acquire of amounts spent
// from, shard by shard.
func leaseLevels(r *result, amounts api.Amounts) []lease.Level {
	whole := leaseLevelOf(r, amounts)
	if r.parts == nil {
		return []lease.Level{whole}
	}
	spent := r.spent(amounts)
	levels := make([]lease.Level, len(spent))
	for i, part := range spent {
		levels[i] = whole
		levels[i].Shard = part.shard
		levels[i].Held = make([]lease.Held, len(part.held))
		for n, h := range part.held {
			levels[i].Held[n] = lease.Held{Limit: h.Name, Tokens: h.Tokens}
		}
	}
	return levels
}

// leaseLevelOf returns the level of a lease for a shard that an acquire of amounts spent
// from.
func leaseLevelOf(r *result, amounts api.Amounts) lease.Level {
	level := lease.Level{
		Entity:   r.item.Key.Entity,
		Resource: r.item.Key.Resource,
		Shard:    r.item.Key.Shard,
		Held:     make([]lease.Held, 0, len(r.item.Limits)),
	}
	for i := range r.item.Limits {
		if r.governed(i) {
			name := r.item.Limits[i].Name
			tokens, _ := amounts.Get(name)
			level.Held = append(level.Held, lease.Held{Limit: name, Tokens: tokens})
		}
	}
	if _, override := baseResource(level.Resource); override {
		level.Brought = broughtTo(r.item)
	}
	return level
}

// broughtTo returns the limits of an override bucket for its lease.
func broughtTo(item *table.Bucket) []lease.Limit {
	brought := make([]lease.Limit, len(item.Limits))
	for i := range item.Limits {
		l := &item.Limits[i]
		brought[i] = lease.Limit{Name: l.Name, Capacity: l.Capacity, Refill: l.Refill, Period: l.Period}
	}
	return brought
}

// givenBy returns the limits that a lease remembers for its bucket; nil for stored limits.
func givenBy(brought []lease.Limit) []bucket.Limit {
	if len(brought) == 0 {
		return nil
	}
	given := make([]bucket.Limit, len(brought))
	for i, b := range brought {
		given[i] = bucket.Limit{Name: b.Name, Capacity: b.Capacity, Refill: b.Refill, Period: b.Period}
	}
	return given
}
