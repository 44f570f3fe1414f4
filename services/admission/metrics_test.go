package admission

import (
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/require"

	"github.com/tidegate/tidegate/engine/fault"
	"github.com/tidegate/tidegate/pkg/api"
)

// counted is the value of a series of the node: its name and labels as Prometheus
// writes them, 0 where there is none.
func (n *node) counted(t *testing.T, series string) float64 {
	t.Helper()
	name, labels, _ := strings.Cut(strings.TrimSuffix(series, "}"), "{")
	families, err := n.metrics.Gather()
	require.NoError(t, err)
	for _, f := range families {
		if f.GetName() != name {
			continue
		}
		for _, m := range f.GetMetric() {
			var has []string
			for _, l := range m.GetLabel() {
				has = append(has, l.GetName()+`="`+l.GetValue()+`"`)
			}
			if strings.Join(has, ",") == labels {
				return m.GetCounter().GetValue() + m.GetGauge().GetValue()
			}
		}
	}
	return 0
}

// What an acquire costs is seen by how it was decided.
func TestCostByForm(t *testing.T) {
	w := newWorld(t)
	w.setLimits(t, api.LimitsTarget{Resource: "gpt-4"}, perDay("rpm", 3))
	n := w.node(t, Tuning{})
	nc := w.nats.Connect(t)
	body := `{"entity":"alice","resource":"gpt-4","consume":{"rpm":1}}`
	require.True(t, acquire(t, nc, body).Allowed)
	lease := acquire(t, nc, body)
	require.True(t, lease.Allowed)
	require.False(t, acquire(t, nc, `{"entity":"alice","resource":"gpt-4","consume":{"rpm":2}}`).Allowed)
	ask[api.ReleaseReply](t, nc, api.VerbRelease, `{"lease":"`+lease.Lease+`"}`)
	for series, want := range map[string]float64{
		`tidegate_admission_operations_total{form="create",kind="acquire"}`: 1,
		`tidegate_admission_operations_total{form="commit",kind="acquire"}`: 1,
		`tidegate_admission_operations_total{form="none",kind="acquire"}`:   1,
		`tidegate_admission_operations_total{form="commit",kind="settle"}`:  1,
		`tidegate_admission_capacity_units_total{form="create"}`:            4, // three indexes list the bucket
		`tidegate_admission_capacity_units_total{form="commit"}`:            2,
		`tidegate_admission_capacity_units_total{form="read"}`:              0,
	} {
		require.InDelta(t, want, n.counted(t, series), 0, series)
	}
}

// A refused write costs as well, in its own form.
func TestARefusedWriteCostsInItsForm(t *testing.T) {
	w := newWorld(t)
	w.setLimits(t, api.LimitsTarget{Resource: "gpt-4"}, perDay("rpm", 10))
	one, other := w.node(t, Tuning{}), w.elsewhere(t)
	two := other.node(t, Tuning{})
	body := `{"entity":"alice","resource":"gpt-4","consume":{"rpm":1}}`
	require.True(t, acquire(t, w.nats.Connect(t), body).Allowed)
	require.True(t, acquire(t, other.nats.Connect(t), body).Allowed)
	require.InDelta(t, 4, one.counted(t, `tidegate_admission_capacity_units_total{form="create"}`), 0)
	require.InDelta(t, 1, two.counted(t, `tidegate_admission_capacity_units_total{form="create"}`), 0, "refused, so that no index was written")
	require.InDelta(t, 1, two.counted(t, `tidegate_admission_store_calls_total{form="create",result="refused"}`), 0)
	require.InDelta(t, 1, two.counted(t, `tidegate_admission_capacity_units_total{form="commit"}`), 0)
}

func TestDenialsByReason(t *testing.T) {
	status := func(entity string, available int64, exceeded bool) api.LimitStatus {
		return api.LimitStatus{Entity: entity, Available: available, Exceeded: exceeded}
	}
	for name, c := range map[string]struct {
		reply api.AcquireReply
		want  denial
	}{
		"short":                {api.AcquireReply{Limits: []api.LimitStatus{status("me", 3, true)}}, denial{reasonShort, levelOwn}},
		"debt":                 {api.AcquireReply{Limits: []api.LimitStatus{status("me", -1, true), status("me", 3, true)}}, denial{reasonDebt, levelOwn}},
		"debt elsewhere":       {api.AcquireReply{Limits: []api.LimitStatus{status("me", -1, false), status("me", 3, true)}}, denial{reasonShort, levelOwn}},
		"never":                {api.AcquireReply{Never: true, Limits: []api.LimitStatus{status("me", -1, true)}}, denial{reasonNever, levelOwn}},
		"a parent's":           {api.AcquireReply{Limits: []api.LimitStatus{status("me", 3, false), status("mum", 0, true)}}, denial{reasonShort, levelAncestor}},
		"own and a parent's":   {api.AcquireReply{Limits: []api.LimitStatus{status("mum", -1, true), status("me", 3, true)}}, denial{reasonDebt, levelOwn}},
		"a parent's, for good": {api.AcquireReply{Never: true, Limits: []api.LimitStatus{status("me", 3, false), status("mum", 5, true)}}, denial{reasonNever, levelAncestor}},
	} {
		m, err := newMetrics(prometheus.NewRegistry())
		require.NoError(t, err)
		m.denied("me", &c.reply)
		for d, counter := range m.denials {
			want := 0.0
			if d == c.want {
				want = 1
			}
			require.InDelta(t, want, testutil.ToFloat64(counter), 0, "%s: %v", name, d)
		}
	}
}

// A cascade's take-back is counted apart from its spends.
func TestTakeBacksAreCountedApart(t *testing.T) {
	require.Equal(t, kindAcquire, operation{}.kind())
	require.Equal(t, kindSettle, operation{settle: true}.kind())
	require.Equal(t, kindRefund, operation{settle: true, refund: true, undone: 1}.kind())
}

// Tokens that were spent for a caller who had his answer before are counted,
// whether the store says so late or never.
func TestSpentForNobodyIsCounted(t *testing.T) {
	for name, kind := range map[string]fault.Kind{"late": fault.ReplyHangs, "unknown": fault.ReplyLost} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.setLimits(t, api.LimitsTarget{Resource: "gpt-4"}, perDay("rpm", 10))
			n := w.node(t, Tuning{StoreTimeout: maxStoreCall})
			nc := w.nats.Connect(t)
			body := `{"entity":"alice","resource":"gpt-4","consume":{"rpm":1}}`
			require.True(t, acquire(t, nc, body).Allowed)
			n.faults.Match(func(operation string, _ []byte) fault.Fault {
				switch {
				case operation == "UpdateItem":
					return fault.Fault{Kind: kind}
				case operation == "GetItem" && kind == fault.ReplyLost: // so that nobody learns whether it is applied
					return fault.Fault{Kind: fault.Unreachable}
				}
				return fault.Fault{}
			})
			e := refused(t, nc, api.VerbAcquire, body, maxStoreCall/2)
			require.Equal(t, api.CodeUnavailable, e.Code)
			require.Eventually(t, func() bool { return testutil.ToFloat64(n.Service.metrics.abandoned) == 1 }, patience, time.Millisecond)
		})
	}
}

// What alerts watch is there before it happens, so that its first time is seen.
func TestSeriesBeginAtZero(t *testing.T) {
	w := newWorld(t)
	n := w.node(t, Tuning{})
	for name, series := range map[string]int{
		"tidegate_admission_requests_total":       7,
		"tidegate_admission_denials_total":        6,
		"tidegate_admission_shed_total": 3,
		"tidegate_admission_operations_total":     9,
		"tidegate_admission_write_failures_total": 18,
	} {
		got, err := testutil.GatherAndCount(n.metrics, name)
		require.NoError(t, err)
		require.Equal(t, series, got, name)
	}
}
