package main

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/tidegate/tidegate/internal/loadgen"
)

// printReport adds the results of a run.
func printReport(p *page, r loadgen.Report) {
	if r.Interrupted {
		p.line("interrupted: this is what was done until then\n")
	}
	rows := [][]string{
		{"requests", number(r.Requests), fmt.Sprintf("in %.2f s: %.0f per second, by %d entities", r.Seconds, r.Rate, r.Entities)},
		{"admitted", number(r.Admitted), ""},
		{"denied", number(r.Denied), counts("by limit", r.DeniedBy)},
	}
	if r.Degraded > 0 {
		rows = append(rows, []string{"degraded", number(r.Degraded), "admitted without asking the limits"})
	}
	rows = append(rows, []string{"errors", number(sum(r.Errors)), counts("by code", r.Errors)})
	if r.Late > 0 {
		rows = append(rows, []string{"late", number(r.Late), "as many as may be under way were: raise that for a true open loop"})
	}
	if s := r.Settlements; s != nil {
		rows = append(rows,
			[]string{"adjusted", number(s.Adjusted), fmt.Sprintf("%d more had cost what they reserved", s.Exact)},
			[]string{"adjust errors", number(sum(s.Errors)), counts("by code", s.Errors)},
			[]string{"tokens reserved", number(s.Reserved), ""},
			[]string{"tokens settled", number(s.Settled), ""})
	}
	p.table(rows)
	p.line("")
	printLatencies(p, r)
	p.line("")
	printCost(p, r.Cost)
	printVerdict(p, r.Check)
}

// printLatencies adds percentiles.
func printLatencies(p *page, r loadgen.Report) {
	rows := [][]string{{"LATENCY (ms)", "P50", "P90", "P99", "P99.9", "MAX"}, latencyRow("acquire", r.Acquire)}
	if r.Settlements != nil {
		rows = append(rows, latencyRow("adjust", r.Settlements.Latency))
	}
	p.table(rows)
}

func latencyRow(name string, l loadgen.Latencies) []string {
	row := []string{name}
	for _, ms := range []float64{l.P50, l.P90, l.P99, l.P999, l.Max} {
		row = append(row, fmt.Sprintf("%.2f", ms))
	}
	return row
}

func printCost(p *page, c loadgen.Cost) {
	if c.NotMeasured != "" {
		p.line("cost: not measured: %s", c.NotMeasured)
		return
	}
	p.line("cost: %d writes (%.0f WCU), %d reads (%.1f RCU); per admitted acquire %.4f writes, %.4f WCU, settling included",
		c.Writes, c.WriteUnits, c.Reads, c.ReadUnits, c.WritesPerAcquire, c.UnitsPerAcquire)
}

// mostViolations is how many are shown to people.
const mostViolations = 10

func printVerdict(p *page, v loadgen.Verdict) {
	switch {
	case v.NotChecked != "":
		p.line("limits: not checked: %s", v.NotChecked)
	case !v.Exceeded():
		p.line("limits: none exceeded: %d limits of entities, recomputed from the replies to %d admissions", v.Limits, v.Admissions)
	default:
		p.line("limits: EXCEEDED, as the replies to %d admissions show:\n", v.Admissions)
		rows := [][]string{{"ENTITY", "LIMIT", "FROM", "TO", "TOKENS TOO MANY, AT LEAST"}}
		for _, x := range v.Violations[:min(len(v.Violations), mostViolations)] {
			rows = append(rows, []string{x.Entity, x.Limit, fmt.Sprintf("%.3f s", x.From), fmt.Sprintf("%.3f s", x.To), fmt.Sprintf("%.3f", x.Excess)})
		}
		p.table(rows)
		if more := len(v.Violations) - mostViolations; more > 0 {
			p.line("and %d more", more)
		}
	}
}

func counts(title string, byName map[string]int64) string {
	parts := make([]string, 0, len(byName))
	for _, name := range slices.Sorted(maps.Keys(byName)) {
		parts = append(parts, fmt.Sprintf("%s %d", name, byName[name]))
	}
	if len(parts) == 0 {
		return ""
	}
	return title + ": " + strings.Join(parts, ", ")
}

func sum(byName map[string]int64) int64 {
	total := int64(0)
	for _, n := range byName {
		total += n
	}
	return total
}
