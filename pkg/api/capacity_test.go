package api_test

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tidegate/tidegate/pkg/api"
)

func TestTotalsOfPagesAddUp(t *testing.T) {
	rows := [][]api.LimitCapacity{
		{{Name: "tpm", Capacity: 10, Available: 10}},
		{{Name: "rpm", Capacity: 5, Available: 0}, {Name: "tpm", Capacity: 10, Available: -4}},
		{},
		{{Name: "rpm", Capacity: 5, Available: 2}},
	}
	want := api.CapacityTotals{
		{Name: "rpm", Entities: 2, Capacity: 10, Available: 2, Exhausted: 1},
		{Name: "tpm", Entities: 2, Capacity: 20, Available: 10, Debt: 4, Exhausted: 1, InDebt: 1},
	}
	for split := range len(rows) + 1 { // one page ends there
		var first, second, all api.CapacityTotals
		for i, row := range rows {
			if i < split {
				first.Count(row)
			} else {
				second.Count(row)
			}
		}
		all.Add(first)
		all.Add(second)
		require.Equal(t, want, all, "split at %d", split)
	}
}

func TestTotalsDoNotWrap(t *testing.T) {
	var totals api.CapacityTotals
	for range 3 {
		totals.Add(api.CapacityTotals{{Name: "rpm", Entities: 1, Capacity: math.MaxInt64 / 2}})
	}
	require.Equal(t, api.CapacityTotals{{Name: "rpm", Entities: 3, Capacity: math.MaxInt64}}, totals)
}
