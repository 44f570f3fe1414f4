package sharder

import (
	"errors"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/tidegate/tidegate/internal/worker"
)

// metrics counts the work of a sharder; package feed counts the feed's.
type metrics struct {
	steps                  *prometheus.CounterVec
	heard, unread          prometheus.Counter
	surveys, surveysFailed prometheus.Counter
}

func newMetrics(reg prometheus.Registerer, b *tracker) (*metrics, error) {
	steps := prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "tidegate_sharder_steps_total",
		Help: "Steps that change a bucket's shards, by kind (double, spread, merge) and result: done, overtaken by another change, or failed and retried.",
	}, []string{"step", "result"})
	for _, k := range []kind{double, spread, merge} {
		for _, result := range []string{"done", "overtaken", "failed"} {
			steps.WithLabelValues(k.String(), result)
		}
	}
	reports := prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "tidegate_sharder_load_reports_total", Help: "Load reports of admission nodes about buckets: heard, or unreadable.",
	}, []string{"result"})
	surveys := prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "tidegate_sharder_surveys_total", Help: "Completed surveys of split buckets, and their pages that failed and were retried.",
	}, []string{"result"})
	count := func(of func() int) func() float64 { return func() float64 { return float64(of()) } }
	known := prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "tidegate_sharder_buckets", Help: "Buckets that the sharder tracks.",
	}, count(func() int { all, _ := b.sizes(); return all }))
	divided := prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "tidegate_sharder_divided_buckets", Help: "Known buckets with several shards.",
	}, count(func() int { _, divided := b.sizes(); return divided }))
	shards := prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "tidegate_sharder_shards", Help: "Shards of the known buckets with several shards.",
	}, count(func() int { all, _ := b.shards(); return all }))
	full := prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "tidegate_sharder_full_buckets", Help: "Buckets with the maximum number of shards, 32; DynamoDB throttles a load that needs more.",
	}, count(func() int { _, full := b.shards(); return full }))
	if err := worker.Register(reg, steps, reports, surveys, known, divided, shards, full); err != nil {
		return nil, err
	}
	return &metrics{
		steps: steps,
		heard: reports.WithLabelValues("heard"), unread: reports.WithLabelValues("unreadable"),
		surveys: surveys.WithLabelValues("done"), surveysFailed: surveys.WithLabelValues("failed"),
	}, nil
}

// result returns the counter of steps with that outcome.
func (m *metrics) result(k kind, err error) prometheus.Counter {
	result := "done"
	switch {
	case errors.Is(err, errOvertaken):
		result = "overtaken"
	case err != nil:
		result = "failed"
	}
	return m.steps.WithLabelValues(k.String(), result)
}
