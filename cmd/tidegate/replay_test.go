package main

import (
	"encoding/json"
	"os"
	"regexp"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tidegate/tidegate/internal/loadgen"
)

const traceSample = "../../internal/loadgen/testdata/azure_conv_300.csv"

// load runs a load command against a system and returns its report.
func load(t *testing.T, s *system, args ...string) loadgen.Report {
	t.Helper()
	metrics := regexp.MustCompile(`http://[0-9.:]+/metrics`).FindString(s.printed)
	w := newWorld()
	code := runWithin(t, append(args, "--nats", s.nats, "--namespace", s.namespace, "--metrics", metrics, "--json"), w)
	require.Equal(t, exitDone, code, w.stderr)
	var report loadgen.Report
	require.NoError(t, json.Unmarshal([]byte(w.stdout.String()), &report))
	return report
}

func TestReplay(t *testing.T) {
	t.Parallel()
	r := load(t, share(t), "replay", traceSample, "--entities", "3", "--set-limits", "rpm=50/day,tpm=10000000/day")
	require.EqualValues(t, 300, r.Requests)
	require.EqualValues(t, 150, r.Admitted, "50 of each entity")
	require.Equal(t, map[string]int64{"rpm": 150}, r.DeniedBy)
	require.Empty(t, r.Errors)
	require.EqualValues(t, 150, r.Settlements.Adjusted+r.Settlements.Exact)
	require.Empty(t, r.Settlements.Errors)
	require.Empty(t, r.Cost.NotMeasured)
	require.Positive(t, r.Cost.Writes)
	require.Equal(t, loadgen.Verdict{Limits: 6, Admissions: 150, Violations: []loadgen.Violation{}}, r.Check)
}

func TestBench(t *testing.T) {
	t.Parallel()
	s := share(t)
	for _, loop := range [][]string{{"bench", "--callers", "8"}, {"bench", "--rate", "1000"}} {
		r := load(t, s, append(loop, "--duration", "200ms", "--entities", "4", "--set-limits", "rpm=10/day", "--consume", "rpm=1")...)
		require.Equal(t, r.Requests, r.Admitted+r.Denied)
		require.LessOrEqual(t, r.Admitted, int64(40))
		require.Empty(t, r.Check.NotChecked)
		require.False(t, r.Check.Exceeded())
		require.Empty(t, r.Cost.NotMeasured)
	}
}

func TestLoadWithoutLimits(t *testing.T) {
	t.Parallel()
	s := share(t)
	w := newWorld()
	code := runWithin(t, []string{"replay", traceSample, "--nats", s.nats, "--namespace", s.namespace}, w)
	require.Equal(t, exitError, code)
	require.Contains(t, w.stderr.String(), "--set-limits")
}

func TestSpeed(t *testing.T) {
	for text, want := range map[string]speed{"max": 0, "1x": 1, "10x": 10, "0.5x": 0.5} {
		var s speed
		require.NoError(t, s.UnmarshalText([]byte(text)))
		require.InDelta(t, float64(want), float64(s), 0)
	}
	for _, text := range []string{"", "10", "x", "0x", "-1x", "NaNx", "1e9x", "fast"} {
		var s speed
		require.ErrorContains(t, s.UnmarshalText([]byte(text)), "write 1x, 10x or max", text)
	}
}

func TestReportForPeople(t *testing.T) {
	violations := make([]loadgen.Violation, mostViolations+2)
	for i := range violations {
		violations[i] = loadgen.Violation{Entity: "replay-1", Limit: "tpm", From: 1, To: 2.5, Excess: 12.345}
	}
	full := loadgen.Report{
		Interrupted: true, Seconds: 2, Entities: 3, Requests: 9, Rate: 4.5, Admitted: 4, Denied: 2, Degraded: 1, Late: 1,
		DeniedBy: map[string]int64{"tpm": 2, "rpm": 1}, Errors: map[string]int64{"overloaded": 1, "no_reply": 1},
		Acquire:     loadgen.Latencies{P50: 1, P90: 2, P99: 3, P999: 4, Max: 5},
		Settlements: &loadgen.Settlements{Adjusted: 3, Errors: map[string]int64{"unavailable": 1}, Reserved: 700, Settled: 650},
		Cost:        loadgen.Cost{Writes: 8, WriteUnits: 9, Reads: 1, ReadUnits: 0.5, WritesPerAcquire: 2, UnitsPerAcquire: 2.25},
		Check:       loadgen.Verdict{Limits: 6, Admissions: 4, Violations: violations},
	}
	plain := loadgen.Report{
		Seconds: 1, Entities: 1, Requests: 1, Rate: 1, Admitted: 1, Cost: loadgen.Cost{NotMeasured: "no metrics endpoint was given"},
		Check: loadgen.Verdict{NotChecked: "the limits of bench-1 were changed meanwhile"},
	}
	var p page
	printReport(&p, full)
	p.line("=====")
	printReport(&p, plain)
	const golden = "testdata/report.txt"
	if *update {
		require.NoError(t, os.WriteFile(golden, []byte(p.String()), 0o600))
	}
	want, err := os.ReadFile(golden)
	require.NoError(t, err)
	require.Equal(t, string(want), p.String())
}

func TestExceededLimitsFailTheCommand(t *testing.T) {
	w := newWorld()
	o := output{environment: w.environment(), atEnd: new(tasks)}
	report := loadgen.Report{Check: loadgen.Verdict{Violations: []loadgen.Violation{{Entity: "e", Limit: "rpm", Excess: 1}}}}
	require.ErrorIs(t, loadFlags{}.conclude(o, report, nil), errExceeded)
	require.Contains(t, w.stdout.String(), "EXCEEDED")
	require.NoError(t, loadFlags{}.conclude(o, loadgen.Report{}, nil))
}
