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
		Help: "Steps of buckets' shards, by kind (double, spread, merge) and result: done, overtaken by others or by news, or failed and to be tried again.",
	}, []string{"step", "result"})
	for _, k := range []kind{double, spread, merge} {
		for _, result := range []string{"done", "overtaken", "failed"} {
			steps.WithLabelValues(k.String(), result)
		}
	}
	reports := prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "tidegate_sharder_load_reports_total", Help: "Reports of admission nodes on the load of buckets: heard, or not to be read.",
	}, []string{"result"})
	surveys := prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "tidegate_sharder_surveys_total", Help: "Surveys of divided buckets that ended, and pages of them that failed and were tried again.",
	}, []string{"result"})
	count := func(of func() int) func() float64 { return func() float64 { return float64(of()) } }
	known := prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "tidegate_sharder_buckets", Help: "Buckets that the sharder remembers.",
	}, count(func() int { all, _ := b.sizes(); return all }))
	divided := prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "tidegate_sharder_divided_buckets", Help: "Buckets of several shards that the sharder knows of.",
	}, count(func() int { _, divided := b.sizes(); return divided }))
	shards := prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "tidegate_sharder_shards", Help: "Shards of the divided buckets that the sharder knows of.",
	}, count(func() int { all, _ := b.shards(); return all }))
	full := prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "tidegate_sharder_full_buckets", Help: "Buckets that have as many shards as there can be: 32; a load that needs more is throttled.",
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
