package main

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tidegate/tidegate/pkg/api"
)

// TestUsage spends, and waits for it to be counted.
func TestUsage(t *testing.T) {
	t.Parallel()
	s := share(t)
	env := s.environment()
	text := transcript(t, env,
		"limits set --resource gpt-4 rpm=10/520week tpm=1000/520week",
		"usage key-1",
		"acquire key-1 gpt-4 rpm=4 tpm=250",
		"adjust $LEASE tpm=-50",
		"acquire key-1 gpt-4 rpm=1",
		"acquire key-1 gpt-4 rpm=99",
		"usage key-1 --window weekly",
		"usage key-1 --from yesterday",
		"usage key-1 --from 2026-03-02 --to 2026-03-01",
		"usage key-1 --resource _default_",
	)
	golden(t, "usage_refused.txt", s.placeless(steady(text)))
	for _, report := range counted(t, env, "usage key-1", 5, 200) {
		acquires := int64(0)
		for _, one := range report.Snapshots {
			acquires += one.Acquires
		}
		require.EqualValues(t, 2, acquires)
	}
}

// counted waits until windows of both lengths have all that was used of each limit,
// and returns what they say.
func counted(t *testing.T, env map[string]string, line string, used ...int64) (reports []entityUsage) {
	t.Helper()
	for _, window := range []string{"hourly", "daily"} {
		var report entityUsage
		require.Eventually(t, func() bool {
			w := newWorld()
			w.env = env
			require.Equal(t, exitDone, runWithin(t, append(strings.Fields(line), "--window", window, "--json"), w), w.stderr.String())
			report = entityUsage{}
			require.NoError(t, json.Unmarshal([]byte(w.stdout.String()), &report))
			return slices.EqualFunc(report.Totals, used, func(total api.UsageTotal, n int64) bool { return total.Used == n })
		}, patience, 10*time.Millisecond, "it is not counted by %s windows", window)
		reports = append(reports, report)
	}
	return reports
}

// TestUsagePages shows what usage prints of given snapshots.
func TestUsagePages(t *testing.T) {
	at := time.Date(2026, 3, 1, 23, 0, 0, 0, time.UTC)
	report := entityUsage{Entity: "key-1", Window: api.WindowHourly}
	for i, tpm := range []int64{4000, 1, 0, -200, 1234, 3999} {
		start := at.Add(time.Duration(i) * time.Hour)
		one := api.UsageSnapshot{Resource: "gpt-4", Window: report.Window, StartMs: start.UnixMilli(), EndMs: start.Add(time.Hour).UnixMilli(), Acquires: int64(i), Limits: []api.LimitUsage{{Name: "tpm", Used: tpm}}}
		if i == 4 {
			one.Override = "k3J9x1QaZ0c"
		} else {
			one.Limits = append([]api.LimitUsage{{Name: "rpm", Used: int64(i)}}, one.Limits...)
		}
		report.Snapshots = append(report.Snapshots, one)
		report.Totals.Count(one)
	}
	var text page
	printUsage(&text, report, false)
	text.line("")
	printUsage(&text, report, true)
	report.Window, report.Snapshots, report.Totals = api.WindowDaily, report.Snapshots[:1], report.Totals[:1]
	text.line("")
	printUsage(&text, report, false)
	printUsage(&text, entityUsage{Entity: "key-2"}, true)
	golden(t, "usage.txt", text.String())
}

func TestBars(t *testing.T) {
	require.Equal(t, strings.Repeat("█", barWidth), bar(1<<60, 1<<60))
	require.Equal(t, "▏", bar(1, 1<<60))
	require.Empty(t, bar(0, 0))
	require.Empty(t, bar(-5, -5))
	for used := int64(1); used <= 1000; used++ {
		require.LessOrEqual(t, len([]rune(bar(used, 1000))), barWidth)
		require.LessOrEqual(t, len([]rune(bar(used-1, 1000))), len([]rune(bar(used, 1000))))
	}
}

func TestTimes(t *testing.T) {
	now := time.Date(2026, 3, 2, 12, 0, 0, 0, time.UTC)
	for text, want := range map[string]string{
		"2026-03-01": "2026-03-01T00:00:00Z", "2026-03-01T12:30": "2026-03-01T12:30:00Z",
		"2026-03-01T12:30:05+02:00": "2026-03-01T10:30:05Z", "24h": "2026-03-01T12:00:00Z", "7d": "2026-02-23T12:00:00Z",
	} {
		ms, err := timeFlag("--from", text, now)
		require.NoError(t, err)
		require.Equal(t, want, time.UnixMilli(ms).UTC().Format(time.RFC3339), text)
	}
	for _, text := range []string{"yesterday", "-1h", "1900-01-01", "xd", "1000000h", "d"} {
		_, err := timeFlag("--from", text, now)
		require.ErrorContains(t, err, "--from", text)
	}
}
