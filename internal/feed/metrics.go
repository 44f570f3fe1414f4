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
		records:   counter("tidegate_feed_records_total", "Records of the change feed that were handled."),
		skipped:   counter("tidegate_feed_skipped_total", "Records that were left out: of a kind that this release does not know, or unreadable ones where a service has no dead letters."),
		dead:      counter("tidegate_feed_dead_letters_total", "Records that were put among the dead letters."),
		failures:  counter("tidegate_feed_failures_total", "Batches and pulls that failed and are tried again."),
		resets:    counter("tidegate_feed_resets_total", "Lanes that were set back to what was not acknowledged yet."),
		forgotten: counter("tidegate_feed_forgotten_total", "Times that this member found NATS to have forgotten records that it had handled; alarm on any."),
		lanes: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "tidegate_feed_lanes", Help: "Lanes of the change feed that this member follows.", ConstLabels: labels,
		}),
		waiting: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "tidegate_feed_lanes_waiting", Help: "Lanes whose batch fails and is tried again, while all behind it waits; alarm on any that stays.", ConstLabels: labels,
		}),
		lag: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "tidegate_feed_lag_seconds", Help: "How old the newest record of a batch was when the batch was done; the store dates records in whole seconds.",
			Buckets: prometheus.ExponentialBuckets(0.125, 2, 16), ConstLabels: labels,
		}),
	}
	waits := prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "tidegate_feed_oldest_seconds", Help: "How long the oldest record that this member works on has been in the feed; 0 when it has none.", ConstLabels: labels,
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
