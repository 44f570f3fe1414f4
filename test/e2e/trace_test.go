package e2e_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tidegate/tidegate/internal/loadgen"
	"github.com/tidegate/tidegate/pkg/api"
	tidegate "github.com/tidegate/tidegate/pkg/client"
	"github.com/tidegate/tidegate/services/relay"
)

// traceBegins is the time of the trace's first request.
func traceBegins() time.Time { return time.Date(2023, 11, 16, 18, 15, 46, 680_590_000, time.UTC) }

// An LLM trace of 58 minutes is played on its own clock, minute by minute: each
// request reserves, and adjusts to what it really cost. What usage says then of each
// hour and of the day is what the file says.
func TestUsageOfARealTraceIsThatOfTheFile(t *testing.T) {
	rows, err := loadgen.ReadTraceFile("testdata/AzureLLMInferenceTrace_conv.csv.gz", 0)
	require.NoError(t, err)
	require.Len(t, rows, 19_366)
	w := newWorld(t, options{began: traceBegins()})
	w.setLimits(t, api.LimitsTarget{System: true}, perDay("rpm", 1_000_000), perDay("tpm", 1_000_000_000))
	w.admission(t)
	w.relay(t, "relay", relay.Tuning{})
	w.aggregator(t, "a")
	w.aggregator(t, "b")

	names := loadgen.Entities("tenant-", 5)
	target := loadgen.Target{Resource: "gpt-4", Entities: names, Now: time.Now}
	for range 4 {
		target.Clients = append(target.Clients, w.client(t))
	}
	want := map[moment]map[string]int64{}
	for next := 0; next < len(rows); {
		// A minute is played when it is that minute, and so in its hour.
		first := traceBegins().Add(rows[next].At)
		w.clock.advance(max(0, rows[next].At-w.clock.passed()))
		var minute []loadgen.Row
		for ; next < len(rows) && traceBegins().Add(rows[next].At).Truncate(time.Minute).Equal(first.Truncate(time.Minute)); next++ {
			row := rows[next]
			for _, m := range momentsOf(names[len(minute)%len(names)], traceBegins().Add(row.At)) {
				if want[m] == nil {
					want[m] = map[string]int64{}
				}
				want[m][loadgen.LimitRequests]++
				want[m][loadgen.LimitTokens] += row.Context + row.Generated
			}
			minute = append(minute, row)
		}
		replay := loadgen.Replay{Target: target, Trace: minute, Estimate: 250, TokensPerSecond: 50, InFlight: 64}
		report, err := replay.Run(t.Context())
		require.NoError(t, err)
		require.EqualValues(t, len(minute), report.Admitted)
	}
	w.mustBeCounted(t)

	require.Len(t, want, len(names)*3, "two hours and a day")
	require.Equal(t, want, usageOf(t, target.Clients[0].Admin(), names))
}

// moment is what a snapshot is of.
type moment struct {
	entity string
	window api.Window
	start  time.Time
}

// momentsOf are the hour and the day of a request.
func momentsOf(entity string, at time.Time) []moment {
	return []moment{{entity, api.WindowHourly, at.Truncate(time.Hour)}, {entity, api.WindowDaily, at.Truncate(24 * time.Hour)}}
}

// usageOf is what users are told that the entities used.
func usageOf(t *testing.T, admin tidegate.Admin, names []string) map[moment]map[string]int64 {
	t.Helper()
	all := map[moment]map[string]int64{}
	for _, entity := range names {
		for _, window := range []api.Window{api.WindowHourly, api.WindowDaily} {
			page, err := admin.Usage(t.Context(), api.UsageRequest{Entity: entity, Window: window})
			require.NoError(t, err)
			require.Empty(t, page.Cursor)
			for _, s := range page.Snapshots {
				used := map[string]int64{}
				for _, l := range s.Limits {
					used[l.Name] = l.Used
				}
				require.Equal(t, used[loadgen.LimitRequests], s.Acquires)
				all[moment{entity, window, time.UnixMilli(s.StartMs).UTC()}] = used
			}
		}
	}
	return all
}
