package alerts_test

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/common/promslog"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql/parser"
	"github.com/prometheus/prometheus/promql/promqltest"
	"github.com/prometheus/prometheus/rules"
	"github.com/stretchr/testify/require"
	"gopkg.in/yaml.v3"
)

const (
	rulesFile = "../../deploy/prometheus/alerts.yaml"
	casesFile = "testdata/cases.yaml"
	// step is the time between two values of a series, and between evaluations.
	step = 30 * time.Second
)

// promQL is the language, without what is experimental in it.
func promQL() parser.Parser { return parser.NewParser(parser.Options{}) }

// scenario is what is scraped, and what one alert does then.
type scenario struct {
	Alert  string              `yaml:"alert"`
	When   string              `yaml:"when"`
	Series map[string]string   `yaml:"series"`
	At     time.Duration       `yaml:"at"`
	Fires  []map[string]string `yaml:"fires"` // labels, without those that the rule gives
}

func scenarios(t *testing.T) (all []scenario) {
	t.Helper()
	text, err := os.ReadFile(casesFile)
	require.NoError(t, err)
	decoder := yaml.NewDecoder(bytes.NewReader(text))
	decoder.KnownFields(true)
	require.NoError(t, decoder.Decode(&all))
	return all
}

// load is the series in the language of Prometheus' own tests.
func (s scenario) load() string {
	var b strings.Builder
	fmt.Fprintf(&b, "load %s\n", step)
	for _, series := range slices.Sorted(maps.Keys(s.Series)) {
		fmt.Fprintf(&b, "  %s %s\n", series, s.Series[series])
	}
	return b.String()
}

// groups are the rules of the file, as Prometheus loads them, over a storage.
func groups(t *testing.T, suite *promqltest.LazyLoader) []*rules.Group {
	t.Helper()
	manager := rules.NewManager(&rules.ManagerOptions{
		QueryFunc:  rules.EngineQueryFunc(suite.QueryEngine(), suite.Storage()),
		Appendable: suite.Storage(),
		Context:    t.Context(),
		NotifyFunc: func(context.Context, string, ...*rules.Alert) {},
		Logger:     promslog.NewNopLogger(),
		Parser:     promQL(),
	})
	loaded, errs := manager.LoadGroups(step, labels.EmptyLabels(), "", nil, false, rulesFile)
	require.Empty(t, errs)
	return slices.Collect(maps.Values(loaded))
}

// alerting are the alerting rules, by name.
func alerting(t *testing.T, loaded []*rules.Group) map[string]*rules.AlertingRule {
	t.Helper()
	all := map[string]*rules.AlertingRule{}
	for _, g := range loaded {
		for _, r := range g.Rules() {
			a, ok := r.(*rules.AlertingRule)
			require.True(t, ok, "%s is no alert", r.Name())
			require.NotContains(t, all, a.Name(), "there are two of the name")
			all[a.Name()] = a
			a.SetRestored(true) // nothing was there before
		}
	}
	return all
}

// Each alert fires in what it is for, with the labels that tell where, and not else.
func TestAlertsFire(t *testing.T) {
	for _, s := range scenarios(t) {
		t.Run(s.Alert+" "+s.When, func(t *testing.T) {
			suite, err := promqltest.NewLazyLoader(s.load(), promqltest.LazyLoaderOpts{})
			require.NoError(t, err)
			defer func() { require.NoError(t, suite.Close()) }()
			loaded := groups(t, suite)
			rule, ok := alerting(t, loaded)[s.Alert]
			require.True(t, ok, "there is no such alert")
			for at := time.Unix(0, 0).UTC(); !at.After(time.Unix(0, 0).Add(s.At)); at = at.Add(step) {
				suite.WithSamplesTill(at, func(err error) {
					require.NoError(t, err)
					for _, g := range loaded {
						g.Eval(suite.Context(), at)
					}
				})
				require.NoError(t, rule.LastError())
			}
			fired := []map[string]string{}
			for _, a := range rule.ActiveAlerts() {
				if a.State != rules.StateFiring {
					continue
				}
				got := a.Labels.Map()
				for name := range rule.Labels().Map() {
					delete(got, name)
				}
				delete(got, labels.AlertName)
				fired = append(fired, got)
				description := a.Annotations.Get("description")
				require.NotContains(t, description, "error expanding", description)
				require.NotContains(t, description, "no value", description)
				require.NotContains(t, description, "{{", description)
				t.Log(description)
			}
			require.ElementsMatch(t, append([]map[string]string{}, s.Fires...), fired)
		})
	}
}

// Every alert has a scenario in which it fires and one in which it does not, says
// how urgent it is and what it means, and is in the runbook.
func TestEveryAlertIsTestedAndExplained(t *testing.T) {
	suite, err := promqltest.NewLazyLoader(scenario{}.load(), promqltest.LazyLoaderOpts{})
	require.NoError(t, err)
	defer func() { require.NoError(t, suite.Close()) }()
	all := alerting(t, groups(t, suite))
	fires, silent := map[string]bool{}, map[string]bool{}
	for _, s := range scenarios(t) {
		if len(s.Fires) > 0 {
			fires[s.Alert] = true
		} else {
			silent[s.Alert] = true
		}
	}
	runbook, err := os.ReadFile("../../docs/observing.md")
	require.NoError(t, err)
	for name, rule := range all {
		require.True(t, fires[name], "%s has no scenario in which it fires", name)
		require.True(t, silent[name], "%s has no scenario in which it does not", name)
		require.Contains(t, []string{"page", "ticket"}, rule.Labels().Get("severity"), name)
		require.NotEmpty(t, rule.Annotations().Get("summary"), name)
		require.NotEmpty(t, rule.Annotations().Get("description"), name)
		require.Equal(t, "docs/observing.md#"+strings.ToLower(name), rule.Annotations().Get("runbook"))
		require.Contains(t, string(runbook), "\n### "+name+"\n", "the runbook")
	}
	for _, m := range strings.Split(string(runbook), "\n### ")[1:] {
		name, _, _ := strings.Cut(m, "\n")
		require.Contains(t, all, name, "the runbook has an alert that is none")
	}
}
