package observe_test

import (
	"flag"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tidegate/tidegate/pkg/api"
)

var update = flag.Bool("update", false, "write what docs/metrics.md says of each metric anew, but its unit")

const (
	document = "../../docs/metrics.md"
	// unknown is the unit of a metric that nobody has described yet.
	unknown = "?"
)

// row is what the document says of one metric.
type row struct{ kind, labels, unit, meaning string }

// cells are those of a line of a table.
func cells(line string) []string {
	parts := strings.Split(strings.Trim(strings.TrimSpace(line), "|"), " | ")
	for i := range parts {
		parts[i] = strings.TrimSpace(parts[i])
	}
	return parts
}

// quoted are the words in backticks.
func quoted(text string) (words []string) {
	for _, m := range regexp.MustCompile("`([^`]+)`").FindAllStringSubmatch(text, -1) {
		words = append(words, m[1])
	}
	return words
}

// documented reads the table of metrics.
func documented(t *testing.T) map[string]row {
	t.Helper()
	text, err := os.ReadFile(document)
	require.NoError(t, err)
	rows := map[string]row{}
	for line := range strings.Lines(string(text)) {
		if !strings.HasPrefix(line, "| `tidegate_") {
			continue
		}
		c := cells(line)
		require.Len(t, c, 5, line)
		name := quoted(c[0])[0]
		require.NotContains(t, rows, name, "listed twice")
		rows[name] = row{kind: c[1], labels: c[2], unit: c[3], meaning: c[4]}
	}
	return rows
}

// write puts rows in place of the document's.
func write(t *testing.T, rows map[string]row) {
	t.Helper()
	text, err := os.ReadFile(document)
	require.NoError(t, err)
	var b strings.Builder
	done := false
	for line := range strings.Lines(string(text)) {
		if strings.HasPrefix(line, "| `tidegate_") {
			continue
		}
		b.WriteString(line)
		if strings.HasPrefix(line, "|---|---|---|---|---|") && !done {
			done = true
			for _, name := range slices.Sorted(maps.Keys(rows)) {
				r := rows[name]
				b.WriteString("| `" + name + "` | " + r.kind + " | " + r.labels + " | " + r.unit + " | " + r.meaning + " |\n")
			}
		}
	}
	require.True(t, done)
	require.NoError(t, os.WriteFile(document, []byte(b.String()), 0o644))
}

// values are what a label may hold, by label and by the metric that has it; ""
// is any metric. Nil is any value, of a label whose values cannot be listed.
type values map[string]map[string][]string

// boundedElsewhere are the labels without a list of values, and why they do not
// grow without end.
func boundedElsewhere() map[string]string {
	return map[string]string{
		"version":      "a process has one",
		"stream_shard": "only those that are being read",
	}
}

// labels reads the table of labels. Behind the words in backticks a cell may name
// a list that is elsewhere: verbs, codes.
func labels(t *testing.T) values {
	t.Helper()
	text, err := os.ReadFile(document)
	require.NoError(t, err)
	_, table, ok := strings.Cut(string(text), "| label | of | values |\n|---|---|---|\n")
	require.True(t, ok)
	table, _, _ = strings.Cut(table, "\n\n")
	all := values{}
	for line := range strings.Lines(table) {
		c := cells(line)
		require.Len(t, c, 3, line)
		label, allowed := quoted(c[0])[0], quoted(c[2])
		if strings.Contains(c[2], "verb") {
			for _, v := range api.Verbs() {
				allowed = append(allowed, string(v))
			}
		}
		if strings.Contains(c[2], "code") {
			for _, code := range api.Codes() {
				allowed = append(allowed, string(code))
			}
		}
		if len(allowed) == 0 {
			require.Contains(t, boundedElsewhere(), label)
		}
		if all[label] == nil {
			all[label] = map[string][]string{}
		}
		metrics := quoted(c[1])
		if len(metrics) == 0 {
			metrics = []string{""}
		}
		for _, metric := range metrics {
			require.NotContains(t, all[label], metric, "%s is listed twice", label)
			all[label][metric] = allowed
		}
	}
	return all
}

// of are the values that a label of a metric may have.
func (v values) of(label, metric string) (allowed []string, ok bool) {
	allowed, ok = v[label][metric]
	if !ok {
		allowed, ok = v[label][""]
	}
	return allowed, ok
}
