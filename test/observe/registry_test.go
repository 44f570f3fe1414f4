package observe_test

import (
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
	"github.com/stretchr/testify/require"
)

// family is a metric as its services describe it.
type family struct {
	help   string
	labels []string // sorted
}

// ours reports whether a metric is one of this program, and not of the Go runtime
// or the process.
func ours(name string) bool { return strings.HasPrefix(name, "tidegate_") }

// described are all metrics of the registries, those too that have no series yet.
func described(t *testing.T, registries []*prometheus.Registry) map[string]family {
	t.Helper()
	form := regexp.MustCompile(`^Desc\{fqName: "([a-zA-Z0-9_:]+)", help: ("(?:[^"\\]|\\.)*"),.* constLabels: \{(.*?)\}, variableLabels: \{(.*?)\}\}$`)
	all := map[string]family{}
	for _, registry := range registries {
		descriptions := make(chan *prometheus.Desc, 1024)
		registry.Describe(descriptions)
		close(descriptions)
		for d := range descriptions {
			m := form.FindStringSubmatch(d.String())
			require.NotNil(t, m, "client_golang shows a description in another way: %s", d)
			if !ours(m[1]) {
				continue
			}
			help, err := strconv.Unquote(m[2])
			require.NoError(t, err)
			names := []string{}
			for _, c := range strings.Split(m[3]+","+m[4], ",") {
				if name, _, _ := strings.Cut(c, "="); name != "" {
					names = append(names, name)
				}
			}
			slices.Sort(names)
			f := family{help: help, labels: names}
			if before, ok := all[m[1]]; ok {
				require.Equal(t, before, f, "%s differs between services", m[1])
			}
			all[m[1]] = f
		}
	}
	return all
}

// gathered are the series of all registries, by metric.
func gathered(t *testing.T, registries []*prometheus.Registry) map[string][]*dto.Metric {
	t.Helper()
	all := map[string][]*dto.Metric{}
	for name, f := range families(t, registries) {
		for _, one := range f {
			all[name] = append(all[name], one.GetMetric()...)
		}
	}
	return all
}

func families(t *testing.T, registries []*prometheus.Registry) map[string][]*dto.MetricFamily {
	t.Helper()
	all := map[string][]*dto.MetricFamily{}
	for _, registry := range registries {
		found, err := registry.Gather()
		require.NoError(t, err)
		for _, f := range found {
			if ours(f.GetName()) {
				all[f.GetName()] = append(all[f.GetName()], f)
			}
		}
	}
	return all
}

// total is the sum over the series of a metric: of a histogram, its observations.
func total(series []*dto.Metric) (sum float64) {
	for _, m := range series {
		sum += m.GetCounter().GetValue() + m.GetGauge().GetValue() + float64(m.GetHistogram().GetSampleCount())
	}
	return sum
}

// requireDocumented compares the document with the registries, once every metric
// has a series.
func requireDocumented(t *testing.T, registries []*prometheus.Registry) {
	t.Helper()
	exist, rows := described(t, registries), documented(t)
	kinds := families(t, registries)
	want := map[string]row{}
	for name, f := range exist {
		require.NotEmpty(t, kinds[name], "%s has no series", name)
		cell := "–"
		if len(f.labels) > 0 {
			cell = "`" + strings.Join(f.labels, "`, `") + "`"
		}
		unit := unknown
		if r, ok := rows[name]; ok {
			unit = r.unit
		}
		want[name] = row{kind: strings.ToLower(kinds[name][0].GetType().String()), labels: cell, unit: unit, meaning: f.help}
	}
	if *update {
		write(t, want)
		rows = documented(t)
	}
	require.Equal(t, slices.Sorted(maps.Keys(want)), slices.Sorted(maps.Keys(rows)), "metrics that exist, and those that docs/metrics.md lists; -update writes them")
	for name, r := range rows {
		require.Equal(t, want[name], r, "%s; -update writes it", name)
		require.NotEqual(t, unknown, r.unit, "say the unit of %s", name)
	}
	requireBounded(t, gathered(t, registries))
}

// requireBounded: a label has a value of its list.
func requireBounded(t *testing.T, series map[string][]*dto.Metric) {
	t.Helper()
	allowed, used := labels(t), map[string]bool{}
	for name, metrics := range series {
		for _, m := range metrics {
			for _, l := range m.GetLabel() {
				list, ok := allowed.of(l.GetName(), name)
				require.True(t, ok, "%s of %s is not described", l.GetName(), name)
				used[l.GetName()] = true
				if list != nil {
					require.Contains(t, list, l.GetValue(), "%s of %s", l.GetName(), name)
				}
			}
		}
	}
	require.Equal(t, slices.Sorted(maps.Keys(allowed)), slices.Sorted(maps.Keys(used)), "labels that are described, and those there are")
}
