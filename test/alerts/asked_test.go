package alerts_test

import (
	"encoding/json"
	"flag"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql/parser"
	"github.com/prometheus/prometheus/promql/promqltest"
	"github.com/stretchr/testify/require"
	"gopkg.in/yaml.v3"
)

var update = flag.Bool("update", false, "write the list of what is asked for anew")

// askedFile lists the metrics, labels and values that anybody looks at. test/observe,
// which has the services, compares it with what they have.
const askedFile = "../observe/testdata/asked.txt"

// scraped are the labels that Prometheus gives each series.
func scraped() []string { return []string{"job", "instance", "le"} }

// asked are lines: a metric; with a label; with a label and one of its values.
type asked map[string]bool

// expression adds what an expression asks for. Names of groups are taken for labels
// of all metrics below them that do not have others: those of the same group.
func (a asked) expression(t *testing.T, where, text string) {
	t.Helper()
	for variable, value := range map[string]string{"$__rate_interval": "5m", "$__range": "1h"} {
		text = strings.ReplaceAll(text, variable, value)
	}
	tree, err := promQL().ParseExpr(text)
	require.NoError(t, err, "%s: %s", where, text)
	parser.Inspect(tree, func(node parser.Node, above []parser.Node) error {
		selector, ok := node.(*parser.VectorSelector)
		if !ok {
			return nil
		}
		if !strings.HasPrefix(selector.Name, "tidegate_") {
			require.Equal(t, "up", selector.Name, "%s: whose metric is it?", where)
			return nil
		}
		a[selector.Name] = true
		for _, m := range selector.LabelMatchers {
			a.matcher(t, where, selector.Name, m)
		}
		for _, parent := range above {
			sum, ok := parent.(*parser.AggregateExpr)
			if !ok {
				continue
			}
			require.False(t, sum.Without, "%s: say by what, so that it can be checked", where)
			for _, label := range sum.Grouping {
				if !slices.Contains(scraped(), label) {
					a[selector.Name+" "+label] = true
				}
			}
		}
		return nil
	})
}

func (a asked) matcher(t *testing.T, where, metric string, m *labels.Matcher) {
	t.Helper()
	if m.Name == model.MetricNameLabel || slices.Contains(scraped(), m.Name) {
		return
	}
	values := []string{m.Value}
	if m.Type == labels.MatchRegexp || m.Type == labels.MatchNotRegexp {
		values = strings.Split(m.Value, "|")
	}
	for _, value := range values {
		require.Regexp(t, `^[\w.]+$`, value, "%s: a list of values is what can be checked", where)
		a[metric+" "+m.Name+"="+value] = true
	}
}

// dashboard is what Grafana reads, as far as it is checked.
type dashboard struct {
	UID    string
	Title  string
	Panels []panel
}

type panel struct {
	ID         int
	Title      string
	Type       string
	Datasource struct{ UID string }
	GridPos    struct{ X, Y, W, H int }
	Targets    []struct{ Expr, LegendFormat string }
}

func dashboards(t *testing.T) (all []dashboard) {
	t.Helper()
	files, err := filepath.Glob("../../deploy/grafana/dashboards/*.json")
	require.NoError(t, err)
	for _, file := range files {
		text, err := os.ReadFile(file)
		require.NoError(t, err)
		var d dashboard
		require.NoError(t, json.Unmarshal(text, &d), file)
		require.Equal(t, d.UID+".json", filepath.Base(file))
		all = append(all, d)
	}
	require.NotEmpty(t, all)
	return all
}

// All that alerts, dashboards and documents ask for is on one list.
func TestWhatIsAskedForIsListed(t *testing.T) {
	a := asked{}
	suite, err := promqltest.NewLazyLoader(scenario{}.load(), promqltest.LazyLoaderOpts{})
	require.NoError(t, err)
	defer func() { require.NoError(t, suite.Close()) }()
	for name, rule := range alerting(t, groups(t, suite)) {
		a.expression(t, name, rule.Query().String())
	}
	for _, d := range dashboards(t) {
		for _, p := range d.Panels {
			for _, target := range p.Targets {
				a.expression(t, d.Title+": "+p.Title, target.Expr)
			}
		}
	}
	for _, file := range append(glob(t, "../../docs/*.md"), "../../README.md") {
		text, err := os.ReadFile(file)
		require.NoError(t, err)
		for _, fence := range regexp.MustCompile("(?s)```promql\n(.*?)```").FindAllStringSubmatch(string(text), -1) {
			a.expression(t, file, fence[1])
		}
		if filepath.Base(file) == "metrics.md" { // which is compared with the metrics anyway
			continue
		}
		for _, name := range regexp.MustCompile(`\btidegate_[a-z_]+[a-z]\b`).FindAllString(string(text), -1) {
			a[name] = true
		}
	}
	list := strings.Join(slices.Sorted(maps.Keys(a)), "\n") + "\n"
	if *update {
		require.NoError(t, os.WriteFile(askedFile, []byte(list), 0o644))
	}
	before, err := os.ReadFile(askedFile)
	require.NoError(t, err)
	require.Equal(t, string(before), list, "-update writes it")
}

func glob(t *testing.T, pattern string) []string {
	t.Helper()
	files, err := filepath.Glob(pattern)
	require.NoError(t, err)
	require.NotEmpty(t, files)
	return files
}

// Dashboards ask the data source that is provisioned, their panels have titles and
// places of their own, and what a legend names is in the series.
func TestDashboardsAreWhole(t *testing.T) {
	text, err := os.ReadFile("../../deploy/grafana/provisioning/datasources/prometheus.yaml")
	require.NoError(t, err)
	var provisioned struct{ Datasources []struct{ UID string } }
	require.NoError(t, yaml.Unmarshal(text, &provisioned))
	require.Len(t, provisioned.Datasources, 1)
	uids := map[string]bool{}
	for _, d := range dashboards(t) {
		require.False(t, uids[d.UID], d.UID)
		uids[d.UID] = true
		ids, titles, taken := map[int]bool{}, map[string]bool{}, map[[2]int]string{}
		for _, p := range d.Panels {
			at := d.Title + ": " + p.Title
			require.False(t, ids[p.ID] || titles[p.Title] || p.Title == "", at)
			ids[p.ID], titles[p.Title] = true, true
			for x := p.GridPos.X; x < p.GridPos.X+p.GridPos.W; x++ {
				for y := p.GridPos.Y; y < p.GridPos.Y+p.GridPos.H; y++ {
					require.Less(t, x, 24, at)
					require.Empty(t, taken[[2]int{x, y}], "%s lies over another", at)
					taken[[2]int{x, y}] = p.Title
				}
			}
			if p.Type == "row" {
				continue
			}
			require.Equal(t, provisioned.Datasources[0].UID, p.Datasource.UID, at)
			require.NotEmpty(t, p.Targets, at)
			for _, target := range p.Targets {
				for _, m := range regexp.MustCompile(`\{\{(\w+)\}\}`).FindAllStringSubmatch(target.LegendFormat, -1) {
					grouped := regexp.MustCompile(`by \([^)]*\b` + m[1] + `\b[^)]*\)`)
					require.True(t, grouped.MatchString(target.Expr) || !strings.Contains(target.Expr, " by ") && m[1] == "instance", "%s: the legend's %s", at, m[1])
				}
			}
		}
	}
}
