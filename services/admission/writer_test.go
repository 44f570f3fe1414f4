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

// testWriter is a writer of a node that does nothing.
func testWriter(ls ...bucket.Limit) *writer {
	w := new(writer)
	w.init(&env{clock: store.NewClock(new(manual).clock(0))}, testKey(), nil)
	w.settings.settings.Store(&config.Resolved{Limits: ls})
	return w
}

// told is a caller that is a function.
type told func(shardResult)

func (told) prepare(shardResult) {}

func (f told) finish(_ *call, res shardResult) { f(res) }

func spendCall(limit string, tokens int64) *call {
	return &call{operation: operation{amounts: api.Amounts{{Name: limit, Tokens: tokens}}}, caller: told(func(shardResult) {})}
}

// The alarm looks at the flight whenever it likes: what it looks at is replaced,
// and never changed.
func TestRefusingCallsLeavesTheFlightOfTheAlarmAlone(t *testing.T) {
	w := testWriter(bucket.Limit{Name: "rpm"})
	calls := []*call{spendCall("unknown", 1), spendCall("rpm", 1)}
	seen := append([]*call(nil), calls...)
	require.Equal(t, seen[1:], flight{w}.sift(calls))
	require.Equal(t, seen, calls)
	require.Equal(t, seen[1:], w.flight)
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
		committed = append(committed, spendCall("rpm", tokens))
		change += tokens * bucket.Milli
	}
	item := &table.Bucket{Level: 1, Limits: []table.Limit{{Limit: rpm, Drawn: full + change}}}
	x := &prospect{item: item, now: now, later: laterSpends(committed, item)}
	for i := range committed {
		r := result{shardResult: x.result(i)}
		available[i] = r.available(0)
	}
	require.Equal(t, [3]int64{90_000, 85_000, 100_000}, available)
}
