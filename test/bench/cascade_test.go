package bench

import (
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/stretchr/testify/require"

	"github.com/tidegate/tidegate/engine"
	"github.com/tidegate/tidegate/internal/table"
	"github.com/tidegate/tidegate/pkg/keys"
	"github.com/tidegate/tidegate/services/admission"
)

// BenchmarkCascade: 64 entities under one parent, each asked by as many callers,
// against 64 without a parent. The parent's writes are shared: an acquire of two
// levels shall cost less than 0.25 writes, at most 4 times a single level's, and
// have at least 0.45 of its rate.
func BenchmarkCascade(b *testing.B) {
	const children, callers, rounds, turn = 64, 2048, 4, 400 * time.Millisecond
	w := newWorld(b)
	for i := range children {
		w.under("child-"+entityName(i), "parent")
	}
	clients := w.clients(w.conns())
	asking := func(prefix string) *contender {
		return &contender{call: func(caller int) error {
			_, err := clients[caller%connections].Acquire(b.Context(), prefix+entityName(caller%children), resource, consume())
			return err
		}}
	}
	single, cascade := asking("alone-"), asking("child-")
	n := w.node(storeLatency, admission.Tuning{})
	var singleCost, cascadeCost measured
	for range rounds { // in turns, so that a busy machine slows both alike
		singleCost.add(b, n, single, callers, turn)
		cascadeCost.add(b, n, cascade, callers, turn)
	}

	b.ReportMetric(single.rate(), "single/s")
	b.ReportMetric(cascade.rate()/single.rate(), "cascade/single")
	b.ReportMetric(singleCost.units/float64(single.done), "single-WCU/acquire")
	b.ReportMetric(cascadeCost.units/float64(cascade.done), "WCU/acquire")
	b.ReportMetric(cascadeCost.calls/float64(cascade.done), "writes/acquire")
	b.ReportMetric(0, "ns/op")
}

// under stores an entity that cascades to a parent.
func (w *world) under(entity, parent string) {
	w.tb.Helper()
	db := dynamodb.NewFromConfig(engine.Config(w.engine.HTTPClient(), "us-east-1"))
	name := table.DefaultName
	_, err := db.PutItem(w.tb.Context(), &dynamodb.PutItemInput{TableName: &name, Item: table.EncodeEntity(&table.Entity{
		Key: keys.Entity{Namespace: w.ns, ID: entity}, Parent: parent, Cascade: true, Version: 1,
	})})
	require.NoError(w.tb, err)
}

// measured is what a contender's turns cost.
type measured struct{ units, calls float64 }

func (m *measured) add(tb testing.TB, n *node, c *contender, callers int, turn time.Duration) {
	tb.Helper()
	before := n.calls.Total()
	c.run(tb, callers, turn)
	cost := minus(n.calls.Total(), before)
	m.units += cost.WriteUnits
	m.calls += float64(cost.Calls)
}

// BenchmarkLoneCascade: one caller, one child and its parent, both written at
// the same time. It shall take at most 1.5 times as long as a single level, and
// cost a write for each.
func BenchmarkLoneCascade(b *testing.B) {
	const rounds, turn = 4, 400 * time.Millisecond
	w := newWorld(b)
	w.under("child", "parent")
	clients := w.clients(w.conns())
	asking := func(entity string) *contender {
		return &contender{call: func(int) error {
			_, err := clients[0].Acquire(b.Context(), entity, resource, consume())
			return err
		}}
	}
	single, cascade := asking("alone"), asking("child")
	n := w.node(storeLatency, admission.Tuning{})
	var singleCost, cascadeCost measured
	for range rounds {
		singleCost.add(b, n, single, 1, turn)
		cascadeCost.add(b, n, cascade, 1, turn)
	}
	b.ReportMetric(single.rate()/cascade.rate(), "time/single")
	b.ReportMetric(cascadeCost.units/float64(cascade.done), "WCU/acquire")
	b.ReportMetric(cascadeCost.calls/float64(cascade.done), "writes/acquire")
	b.ReportMetric(0, "ns/op")
}
