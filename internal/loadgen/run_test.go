package loadgen

import (
	"context"
	"encoding/json"
	"flag"
	"os"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tidegate/tidegate/pkg/api"
	tidegate "github.com/tidegate/tidegate/pkg/client"
)

var update = flag.Bool("update", false, "rewrite golden files")

func target(client *tidegate.Client, entities int) Target {
	return Target{
		Clients: []*tidegate.Client{client}, Resource: "gpt-4", Entities: Entities("replay-", entities), Now: time.Now, Finished: new(atomic.Int64),
	}
}

func rows(tokens ...int64) []Row {
	list := make([]Row, len(tokens)/2)
	for i := range list {
		list[i] = Row{Context: tokens[2*i], Generated: tokens[2*i+1]}
	}
	return list
}

func TestReplayReservesThenSettles(t *testing.T) {
	f := &fake{limits: []api.Limit{tenYears(LimitRequests, 4), tenYears(LimitTokens, 1000)}}
	p := Replay{
		Target: target(f.start(t), 1), Estimate: 100, TokensPerSecond: 50, InFlight: 1,
		Trace: rows(300, 150, 200, 50, 10, 100, 900, 1, 1, 101, 1, 1),
	}
	report, err := p.Run(t.Context())
	require.NoError(t, err)
	require.EqualValues(t, 6, report.Requests)
	require.EqualValues(t, 4, report.Admitted, "two debits, a credit, and one that costs what was reserved")
	require.Equal(t, map[string]int64{LimitTokens: 2, LimitRequests: 1}, report.DeniedBy)
	require.EqualValues(t, 2, report.Denied)
	s := report.Settlements
	require.EqualValues(t, 3, s.Adjusted)
	require.EqualValues(t, 1, s.Exact)
	require.EqualValues(t, 300+200+10+1+4*100, s.Reserved)
	require.EqualValues(t, 450+250+110+102, s.Settled)
	require.Equal(t, s.Settled, f.spent[LimitTokens], "as the service counts it")
	require.EqualValues(t, 6, report.Acquire.Count)
	require.EqualValues(t, 3, s.Latency.Count)
	require.EqualValues(t, 6, p.Finished.Load())
	require.Equal(t, Verdict{Limits: 2, Admissions: 4, Violations: []Violation{}}, report.Check)
	require.Equal(t, "no metrics endpoint was given", report.Cost.NotMeasured)
}

func TestReplayFindsOverAdmission(t *testing.T) {
	f := &fake{limits: []api.Limit{tenYears(LimitRequests, 3), tenYears(LimitTokens, 100_000)}, broken: true}
	p := Replay{Target: target(f.start(t), 2), Estimate: 100, TokensPerSecond: 50, InFlight: 4, Trace: rows(1, 2, 1, 2, 1, 2, 1, 2, 1, 2, 1, 2, 1, 2)}
	report, err := p.Run(t.Context())
	require.NoError(t, err)
	require.True(t, report.Check.Exceeded())
	require.Len(t, report.Check.Violations, 1, "only the entity with four requests")
	v := report.Check.Violations[0]
	require.Equal(t, [2]string{"replay-1", LimitRequests}, [2]string{v.Entity, v.Limit})
	require.InDelta(t, 1, v.Excess, 0.01)
}

func TestReplayPacesByTheTrace(t *testing.T) {
	f := &fake{limits: []api.Limit{tenYears(LimitRequests, 100), tenYears(LimitTokens, 1000)}}
	p := Replay{
		Target: target(f.start(t), 1), TokensPerSecond: 1000, InFlight: 10, Speed: 10,
		Trace: []Row{{Generated: 1}, {At: 300 * time.Millisecond, Generated: 100}},
	}
	report, err := p.Run(t.Context())
	require.NoError(t, err)
	require.GreaterOrEqual(t, report.Seconds, 0.03+0.01, "a tenth of the trace's time and of the generation's")
	require.EqualValues(t, 2, report.Settlements.Adjusted)
}

func TestAnInterruptedReplaySettlesAndReports(t *testing.T) {
	f := &fake{limits: []api.Limit{tenYears(LimitRequests, 100), tenYears(LimitTokens, 1000)}}
	ctx, cancel := context.WithCancel(t.Context())
	f.on = func(int) string { cancel(); return "" }
	p := Replay{
		Target: target(f.start(t), 1), TokensPerSecond: 0.001, InFlight: 10, Speed: 1,
		Trace: []Row{{Context: 5, Generated: 7}, {At: time.Hour, Context: 5, Generated: 7}},
	}
	report, err := p.Run(ctx)
	require.NoError(t, err)
	require.True(t, report.Interrupted)
	require.EqualValues(t, 1, report.Requests)
	require.EqualValues(t, 12, report.Settlements.Settled)
	require.EqualValues(t, 12, f.spent[LimitTokens])
	require.Equal(t, 1, report.Check.Admissions, "what was done is checked")
}

func TestErrorsAreCountedByCode(t *testing.T) {
	f := &fake{limits: []api.Limit{tenYears(LimitRequests, 100), tenYears(LimitTokens, 1000)}}
	f.on = func(n int) string { return []string{"overloaded", "invalid_amount", "overloaded"}[n-1] }
	p := Replay{Target: target(f.start(t), 1), TokensPerSecond: 50, InFlight: 1, Trace: rows(1, 1, 1, 1, 1, 1)}
	report, err := p.Run(t.Context())
	require.NoError(t, err)
	require.Equal(t, map[string]int64{"overloaded": 2, "invalid_amount": 1}, report.Errors)
	require.Zero(t, report.Admitted)
}

func TestLimitsThatChangeAreNotChecked(t *testing.T) {
	f := &fake{limits: []api.Limit{tenYears(LimitRequests, 100), tenYears(LimitTokens, 1000)}}
	f.on = func(int) string { f.limits = f.limits[:1]; return "" }
	p := Replay{Target: target(f.start(t), 1), TokensPerSecond: 50, InFlight: 1, Trace: rows(1, 1)}
	report, err := p.Run(t.Context())
	require.NoError(t, err)
	require.Equal(t, "the limits of replay-1 were changed meanwhile", report.Check.NotChecked)
	require.False(t, report.Check.Exceeded())
}

func TestSetLimits(t *testing.T) {
	f := &fake{}
	tg := target(f.start(t), 3)
	want := []api.Limit{tenYears("b", 1), tenYears("a", 2)}
	require.NoError(t, tg.SetLimits(t.Context(), want))
	got, err := tg.limits(t.Context())
	require.NoError(t, err)
	require.Equal(t, [][]api.Limit{want, want, want}, got)
}

const (
	metricsBefore = `# TYPE tidegate_admission_store_calls_total counter
tidegate_admission_store_calls_total{form="commit",result="ok"} 10
tidegate_admission_store_calls_total{form="commit",result="error"} 1
tidegate_admission_store_calls_total{form="read",result="ok"} 5
# TYPE tidegate_admission_capacity_units_total counter
tidegate_admission_capacity_units_total{form="commit"} 11
tidegate_admission_capacity_units_total{form="read"} 2.5
`
	metricsAfter = `# TYPE tidegate_admission_store_calls_total counter
tidegate_admission_store_calls_total{form="commit",result="ok"} 11
tidegate_admission_store_calls_total{form="commit",result="error"} 1
tidegate_admission_store_calls_total{form="create",result="ok"} 2
tidegate_admission_store_calls_total{form="read",result="ok"} 6
# TYPE tidegate_admission_capacity_units_total counter
tidegate_admission_capacity_units_total{form="commit"} 12
tidegate_admission_capacity_units_total{form="create"} 6
tidegate_admission_capacity_units_total{form="read"} 3
`
)

func TestLoadClosed(t *testing.T) {
	f := &fake{limits: []api.Limit{tenYears("rpm", 6)}}
	ctx, cancel := context.WithCancel(t.Context())
	f.on = func(n int) string {
		if n == 9 {
			cancel()
		}
		return ""
	}
	l := Load{Target: target(f.start(t), 2), Consume: api.Amounts{{Name: "rpm", Tokens: 1}}, Callers: 3, Duration: time.Hour}
	l.Metrics = []string{node(t, metricsBefore, metricsAfter), node(t, "", metricsBefore)}
	report, err := l.Run(ctx)
	require.NoError(t, err)
	require.True(t, report.Interrupted)
	require.EqualValues(t, 6, report.Admitted)
	require.Equal(t, report.Requests-6, report.Denied)
	require.GreaterOrEqual(t, report.Requests, int64(9))
	require.Equal(t, Cost{
		Writes: 3 + 11, Reads: 1 + 5, WriteUnits: 7 + 11, ReadUnits: 0.5 + 2.5,
		WritesPerAcquire: 14.0 / 6, UnitsPerAcquire: 3,
	}, report.Cost)
	require.Nil(t, report.Settlements)
	require.False(t, report.Check.Exceeded())
}

func TestLoadOpen(t *testing.T) {
	f := &fake{limits: []api.Limit{tenYears("rpm", 1000)}}
	l := Load{Target: target(f.start(t), 2), Consume: api.Amounts{{Name: "rpm", Tokens: 2}}, Callers: 10, Rate: 1000, Duration: 50 * time.Millisecond}
	report, err := l.Run(t.Context())
	require.NoError(t, err)
	require.EqualValues(t, 50, report.Requests, "every request that became due")
	require.EqualValues(t, 100, f.spent["rpm"])
}

func TestCostIsNotInvented(t *testing.T) {
	for name, url := range map[string]string{
		"unreachable": "http://127.0.0.1:1/metrics", "nothing to say": node(t), "restarted": node(t, metricsAfter, metricsBefore),
	} {
		t.Run(name, func(t *testing.T) {
			f := &fake{limits: []api.Limit{tenYears("rpm", 1000)}}
			l := Load{Target: target(f.start(t), 1), Consume: api.Amounts{{Name: "rpm", Tokens: 1}}, Callers: 1, Rate: 1000, Duration: time.Millisecond}
			l.Metrics = []string{url}
			report, err := l.Run(t.Context())
			require.NoError(t, err)
			require.NotEmpty(t, report.Cost.NotMeasured)
			require.Zero(t, report.Cost.UnitsPerAcquire)
		})
	}
}

func TestReportGolden(t *testing.T) {
	report := Report{
		Seconds: 1.5, Entities: 2, Requests: 3, Rate: 2, Admitted: 1, Denied: 1, DeniedBy: map[string]int64{"tpm": 1},
		Errors: map[string]int64{"overloaded": 1}, Acquire: Latencies{Count: 3, Mean: 2, P50: 1, P90: 3, P99: 3, P999: 3, Max: 3},
		Settlements: &Settlements{Adjusted: 1, Errors: map[string]int64{}, Reserved: 700, Settled: 650},
		Cost:        Cost{Writes: 2, WriteUnits: 2, WritesPerAcquire: 2, UnitsPerAcquire: 2},
		Check:       Verdict{Limits: 4, Admissions: 1, Violations: []Violation{{Entity: "e", Limit: "tpm", From: 0.5, To: 1, Excess: 1.25}}},
	}
	got, err := json.MarshalIndent(report, "", "  ")
	require.NoError(t, err)
	const golden = "testdata/report.json"
	if *update {
		require.NoError(t, os.WriteFile(golden, append(got, '\n'), 0o600))
	}
	want, err := os.ReadFile(golden)
	require.NoError(t, err)
	require.Equal(t, string(want), string(got)+"\n")
}
