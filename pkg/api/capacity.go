package api

import (
	"cmp"
	"math"
	"slices"
)

// CapacityRequest lists, a page at a time, the entities that have spent from a
// resource, with their balances.
type CapacityRequest struct {
	Resource string `json:"resource" rule:"resource,required"`
	// Cursor is from the preceding page; empty for the first page.
	Cursor string `json:"cursor,omitempty"`
	// Limit is the maximum number of entities of the page, up to MaxPage; 0 is DefaultPage.
	Limit int64 `json:"limit,omitempty" rule:"page"`
}

// CapacityReply holds a page of entities. The last page has no cursor; earlier pages
// may hold fewer entities than requested, even zero.
type CapacityReply struct {
	// Totals sums up this page; the totals of the resource are the sum over all pages.
	Totals   CapacityTotals   `json:"totals"`
	Entities []EntityCapacity `json:"entities"`
	Cursor   string           `json:"cursor,omitempty"`
}

// EntityCapacity holds an entity's balances for the resource, over all shards of its
// bucket.
type EntityCapacity struct {
	Entity string `json:"entity"`
	Shards int64  `json:"shards"`
	// Limits holds the limits that apply now, by name; empty if no config level sets any.
	Limits []LimitCapacity `json:"limits"`
	// Changing is true if the shards kept splitting or merging during the read. The
	// balances are then unknown: Limits is empty, and the totals leave the entity out.
	Changing bool `json:"changing,omitempty"`
	// Damaged is true if an item of the entity cannot be read. The balances are then
	// unknown: Limits is empty, and the totals leave the entity out.
	Damaged bool `json:"damaged,omitempty"`
}

// LimitCapacity holds the capacity and balance of a limit, in whole tokens.
type LimitCapacity struct {
	Name     string `json:"name"`
	Capacity int64  `json:"capacity"`
	// Available is the balance, rounded down; negative is debt.
	Available int64 `json:"available"`
}

// CapacityTotal sums up a limit over entities, in whole tokens.
type CapacityTotal struct {
	Name      string `json:"name"`
	Entities  int64  `json:"entities"`  // number of entities with the limit
	Capacity  int64  `json:"capacity"`  // sum over these entities
	Available int64  `json:"available"` // sum of the positive balances
	Debt      int64  `json:"debt"`      // sum of the debts, as a positive number
	Exhausted int64  `json:"exhausted"` // entities without a whole token left, including entities in debt
	InDebt    int64  `json:"in_debt"`   // entities in debt
}

// CapacityTotals holds totals sorted by name. Sums saturate at the largest int64.
type CapacityTotals []CapacityTotal

// total returns the limit as the total of a single entity.
func (l LimitCapacity) total() CapacityTotal {
	t := CapacityTotal{Name: l.Name, Entities: 1, Capacity: l.Capacity, Available: max(0, l.Available), Debt: max(0, -l.Available)}
	if l.Available <= 0 {
		t.Exhausted = 1
	}
	if l.Available < 0 {
		t.InDebt = 1
	}
	return t
}

// Count adds the limits of an entity.
func (t *CapacityTotals) Count(limits []LimitCapacity) {
	for _, l := range limits {
		t.add(l.total())
	}
}

// Add adds the totals of another page.
func (t *CapacityTotals) Add(page CapacityTotals) {
	for _, more := range page {
		t.add(more)
	}
}

func (t *CapacityTotals) add(more CapacityTotal) {
	i, found := slices.BinarySearchFunc(*t, more.Name, func(total CapacityTotal, name string) int { return cmp.Compare(total.Name, name) })
	if !found {
		*t = slices.Insert(*t, i, more)
		return
	}
	total := &(*t)[i]
	total.Entities = sum(total.Entities, more.Entities)
	total.Capacity = sum(total.Capacity, more.Capacity)
	total.Available = sum(total.Available, more.Available)
	total.Debt = sum(total.Debt, more.Debt)
	total.Exhausted = sum(total.Exhausted, more.Exhausted)
	total.InDebt = sum(total.InDebt, more.InDebt)
}

// sum adds nonnegative numbers and saturates at the largest int64.
func sum(a, b int64) int64 {
	if a > math.MaxInt64-b {
		return math.MaxInt64
	}
	return a + b
}
