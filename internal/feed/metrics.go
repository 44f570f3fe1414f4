package feed

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// metrics counts the work of a service. The service is a label of all metrics, so that
// a process can run several services.
type metrics struct {
	records   prometheus.Counter
	skipped   prometheus.Counter
	dead      prometheus.Counter
	failures  prometheus.Counter
	resets    prometheus.Counter
	forgotten prometheus.Counter
	lanes     prometheus.Gauge
	waiting   prometheus.Gauge
	lag       prometheus.Histogram
}

// newMetrics makes them; oldest is asked for how long the oldest record has waited.
func newMetrics(reg prometheus.Registerer, service string, oldest func() time.Duration) (*metrics, error) {
	labels := prometheus.Labels{"service": service}
	counter := func(name, help string) prometheus.Counter {
		return prometheus.NewCounter(prometheus.CounterOpts{Name: name, Help: help, ConstLabels: labels})
	}
	m := &metrics{
		records:   counter("tidegate_feed_records_total", "Handled records of the change feed."),
		skipped:   counter("tidegate_feed_skipped_total", "Skipped records: of a kind unknown to this release, or unreadable in a service without dead letters."),
		dead:      counter("tidegate_feed_dead_letters_total", "Records that became dead letters."),
		failures:  counter("tidegate_feed_failures_total", "Batches and pulls that failed and are retried."),
		resets:    counter("tidegate_feed_resets_total", "Times that a lane was set back to its unacknowledged records."),
		forgotten: counter("tidegate_feed_forgotten_total", "Times that this member found that NATS had lost records that it had already handled; alert on any."),
		lanes: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "tidegate_feed_lanes", Help: "Lanes of the change feed that this member follows.", ConstLabels: labels,
		}),
		waiting: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "tidegate_feed_lanes_waiting", Help: "Lanes whose batch fails and is retried, while the records behind it wait; alert on any that persist.", ConstLabels: labels,
		}),
		lag: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "tidegate_feed_lag_seconds", Help: "Age of the newest record of a batch when the batch was done; the store dates records in whole seconds.",
			Buckets: prometheus.ExponentialBuckets(0.125, 2, 16), ConstLabels: labels,
		}),
	}
	waits := prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "tidegate_feed_oldest_seconds", Help: "Age in the feed of the oldest record that this member works on; 0 if it has none.", ConstLabels: labels,
	}, func() float64 { return oldest().Seconds() })
	for _, c := range []prometheus.Collector{m.records, m.skipped, m.dead, m.failures, m.resets, m.forgotten, m.lanes, m.waiting, m.lag, waits} {
		if err := reg.Register(c); err != nil {
			return nil, err
		}
	}
	return m, nil
}

// done counts a batch that was handled.
func (m *metrics) done(b *Batch, now time.Time) {
	m.records.Add(float64(len(b.Records)))
	if n := len(b.Records); n > 0 {
		m.lag.Observe(max(0, now.Sub(time.UnixMilli(b.Records[n-1].AtMs)).Seconds()))
	}
}
