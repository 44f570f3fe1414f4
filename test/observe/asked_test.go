package observe_test

import (
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
	"github.com/stretchr/testify/require"

	"github.com/tidegate/tidegate/pkg/bucket"
	"github.com/tidegate/tidegate/pkg/events"
)

// neverMoved are the values of labels that somebody asks for and no move brings
// about, each with the reason.
func neverMoved() map[string]string {
	return map[string]string{
		"tidegate_admission_requests_total verb=acquire.override": "it is asked as an acquire is",
		"tidegate_feed_oldest_seconds service=archiver":           "0 again by the end; TestAnHourWithoutAStore in services/archiver",
	}
}

// requireAsked: all that alerts, dashboards and documents ask for is there, by what
// docs/metrics.md says, and has moved. test/alerts, which can read expressions,
// writes the list.
func requireAsked(t *testing.T, registries []*prometheus.Registry) {
	t.Helper()
	text, err := os.ReadFile("testdata/asked.txt")
	require.NoError(t, err)
	rows, allowed, series := documented(t), labels(t), gathered(t, registries)
	never, still := neverMoved(), []string{}
	for line := range strings.Lines(string(text)) {
		line = strings.TrimSpace(line)
		asked, selector, _ := strings.Cut(line, " ")
		label, value, _ := strings.Cut(selector, "=")
		name := asked
		if _, ok := rows[name]; !ok {
			name = strings.TrimSuffix(strings.TrimSuffix(strings.TrimSuffix(asked, "_bucket"), "_count"), "_sum")
			require.Equal(t, "histogram", rows[name].kind, "%s is asked for and does not exist", asked)
		}
		if label != "" {
			require.Contains(t, quoted(rows[name].labels), label, "%s has no such label", line)
		}
		if value == "" {
			continue
		}
		list, ok := allowed.of(label, name)
		require.True(t, ok && (list == nil || slices.Contains(list, value)), "%s: there is no such value", line)
		if never[line] != "" {
			delete(never, line)
			continue
		}
		if total(having(series[name], label, value)) <= 0 {
			still = append(still, line)
		}
	}
	require.Empty(t, still, "asked for, and not moved")
	require.Empty(t, never, "they are not asked for any more")
}

// having are the series with a label's value.
func having(series []*dto.Metric, label, value string) (some []*dto.Metric) {
	for _, m := range series {
		if slices.ContainsFunc(m.GetLabel(), func(l *dto.LabelPair) bool { return l.GetName() == label && l.GetValue() == value }) {
			some = append(some, m)
		}
	}
	return some
}

// What alerts know of the program besides its metrics is as the program has it.
func TestAlertsKnowTheConstants(t *testing.T) {
	text, err := os.ReadFile("../../deploy/prometheus/alerts.yaml")
	require.NoError(t, err)
	lanes := regexp.MustCompile(`tidegate_feed_lanes\{[^}]*\}\) < (\d+)`).FindStringSubmatch(string(text))
	require.NotNil(t, lanes)
	require.Equal(t, strconv.Itoa(events.Lanes), lanes[1])
	require.Contains(t, string(text), "of "+strconv.Itoa(events.Lanes)+" lanes")
	require.Contains(t, string(text), strconv.Itoa(bucket.MaxShards)+" shards")
}
