package admission

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tidegate/tidegate/internal/config"
	"github.com/tidegate/tidegate/internal/store"
	"github.com/tidegate/tidegate/internal/table"
	"github.com/tidegate/tidegate/pkg/api"
	"github.com/tidegate/tidegate/pkg/bucket"
)

// testCommitter is one of a node that does nothing else.
func testCommitter(ls ...bucket.Limit) *committer {
	c := &committer{node: &Service{clock: store.NewClock(new(manual).clock(0))}}
	c.settings.Store(&config.Resolved{Limits: ls})
	return c
}

func spend(limit string, tokens int64, finish func(result)) *call {
	return &call{operation: operation{amounts: api.Amounts{{Name: limit, Tokens: tokens}}}, finish: finish}
}

// The alarm looks at the flight whenever it likes: what it looks at is replaced,
// and never changed.
func TestRefusingCallsLeavesTheFlightOfTheAlarmAlone(t *testing.T) {
	c := testCommitter(bucket.Limit{Name: "rpm"})
	calls := []*call{spend("unknown", 1, func(result) {}), spend("rpm", 1, nil)}
	seen := append([]*call(nil), calls...)
	require.Equal(t, seen[1:], c.sift(calls))
	require.Equal(t, seen, calls)
	require.Equal(t, seen[1:], c.flight)
}

// What is available is after the call's own spend and those before it, also when
// a later call of the same write gave back more than the bucket can hold.
func TestAvailableIsAfterTheCallsOwnSpend(t *testing.T) {
	rpm := bucket.Limit{Name: "rpm", Capacity: 100_000, Refill: 100_000, Period: 86_400_000}
	now := bucket.At(time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC))
	full := rpm.Window(bucket.Whole(), now).Full()
	var available [3]int64
	var committed []*call
	change := int64(0)
	for _, tokens := range []int64{10, 5, -50} {
		committed = append(committed, spend("rpm", tokens, nil))
		change += tokens * bucket.Milli
	}
	item := &table.Bucket{Level: 1, Limits: []table.Limit{{Limit: rpm, Drawn: full + change}}}
	x := &prospect{item: item, now: now, later: laterSpends(committed, item)}
	for i := range committed {
		r := x.result(i)
		available[i] = r.available(0)
	}
	require.Equal(t, [3]int64{90_000, 85_000, 100_000}, available)
}
