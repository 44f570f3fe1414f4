package relay

import (
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/tidegate/tidegate/internal/worker"
	"github.com/tidegate/tidegate/pkg/events"
)

// metrics of a relay.
type metrics struct {
	records  prometheus.Counter
	outside  prometheus.Counter
	batches  prometheus.Counter
	fenced   prometheus.Counter
	trimmed  prometheus.Counter
	forgot   prometheus.Counter
	full     prometheus.Counter
	dead     prometheus.Counter
	failures prometheus.Counter
	purged   prometheus.Gauge
	shards   prometheus.Gauge
	lags     *lags
	waits    prometheus.Gauge
	dropped  *prometheus.CounterVec
	bytes    *prometheus.GaugeVec
	bound    *prometheus.GaugeVec
	unseen   *prometheus.GaugeVec
}

func newMetrics(reg prometheus.Registerer, now func() time.Time) (*metrics, error) {
	counter := func(name, help string) prometheus.Counter {
		return prometheus.NewCounter(prometheus.CounterOpts{Name: name, Help: help})
	}
	gauge := func(name, help string) prometheus.Gauge {
		return prometheus.NewGauge(prometheus.GaugeOpts{Name: name, Help: help})
	}
	ofKind := func(name, help string) *prometheus.GaugeVec {
		return prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: name, Help: help}, []string{"kind"})
	}
	m := &metrics{
		records:  counter("tidegate_relay_records_total", "Events that this relay published."),
		outside:  counter("tidegate_relay_outside_total", "Records in the stream that the feed does not carry."),
		batches:  counter("tidegate_relay_batches_total", "Batches that this relay published, including batches with only a checkpoint."),
		fenced:   counter("tidegate_relay_fenced_total", "Batches refused because another relay had already published the records."),
		trimmed:  counter("tidegate_relay_trimmed_total", "Times that changes were lost because DynamoDB no longer keeps them; alert on any."),
		forgot:   counter("tidegate_relay_forgotten_total", "Times that this relay found that NATS had lost acknowledged changes, which are published again; alert on any."),
		full:     counter("tidegate_relay_feed_full_total", "Batches refused because the feed is full; they are retried."),
		dead:     counter("tidegate_relay_dead_letters_total", "Records that could not be turned into events."),
		failures: counter("tidegate_relay_failures_total", "Calls to DynamoDB and NATS that failed and are retried."),
		purged:   gauge("tidegate_relay_purged_sequence", "Sequence in the feed up to which this relay has purged changes that every service has seen; the highest of all kinds."),
		shards:   gauge("tidegate_relay_stream_shards", "Stream shards that this relay reads."),
		waits:    gauge("tidegate_relay_buckets_wait", "1 while changes of buckets wait in DynamoDB's stream because the feed reserves its remaining room for the other kinds."),
		dropped: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "tidegate_relay_dropped_total", Help: "Times that the feed dropped changes of a kind before every service had seen them; alert on any.",
		}, []string{"kind"}),
		bytes:  ofKind("tidegate_relay_feed_bytes", "Estimated size of a kind in the feed; shown by the relay that purges."),
		bound:  ofKind("tidegate_relay_feed_bound_bytes", "Maximum size of a kind in the feed; shown by the relay that purges."),
		unseen: ofKind("tidegate_relay_feed_unseen_seconds", "Age of the oldest change of a kind that some service has not seen, 0 if every change was seen; shown by the relay that purges."),
		lags:   &lags{now: now, of: map[string]*lag{}},
	}
	for _, kind := range events.Kinds() { // an alert sees the first
		m.dropped.WithLabelValues(string(kind))
	}
	if err := worker.Register(reg,
		m.records, m.outside, m.batches, m.fenced, m.trimmed, m.forgot, m.full, m.dead, m.failures, m.purged, m.shards, m.lags,
		m.waits, m.dropped, m.bytes, m.bound, m.unseen,
	); err != nil {
		return nil, err
	}
	return m, nil
}

// lags collects how far the feed is behind each stream shard that is being read,
// and so has no more label values than there are readers.
type lags struct {
	now func() time.Time

	mu sync.Mutex
	of map[string]*lag // by stream shard; guarded by mu
}

// lag is the lag of a stream shard.
type lag struct {
	mu sync.Mutex
	at time.Time // all changes up to then are in the feed; guarded by mu
}

// until says that all changes up to a time are in the feed.
func (l *lag) until(at time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if at.After(l.at) {
		l.at = at
	}
}

func (l *lag) seconds(now time.Time) float64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return max(0, now.Sub(l.at).Seconds())
}

// follow begins to show the lag of a stream shard; nothing is known of it yet.
func (l *lags) follow(shard string) *lag {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.of[shard] = &lag{at: l.now()}
	return l.of[shard]
}

// leave ends the work of follow.
func (l *lags) leave(shard string, followed *lag) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.of[shard] == followed {
		delete(l.of, shard)
	}
}

func lagDescription() *prometheus.Desc {
	return prometheus.NewDesc("tidegate_relay_lag_seconds",
		"Age of the newest published change of each stream shard that is behind; the store dates changes in whole seconds.",
		[]string{"stream_shard"}, nil)
}

// worst is the longest lag; 0 where nothing is read.
func (l *lags) worst() float64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	worst := 0.0
	for _, one := range l.of {
		worst = max(worst, one.seconds(l.now()))
	}
	return worst
}

// reads is how many stream shards are being read.
func (l *lags) reads() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.of)
}

// Describe implements prometheus.Collector.
func (l *lags) Describe(to chan<- *prometheus.Desc) { to <- lagDescription() }

// Collect implements prometheus.Collector.
func (l *lags) Collect(to chan<- prometheus.Metric) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for shard, one := range l.of {
		to <- prometheus.MustNewConstMetric(lagDescription(), prometheus.GaugeValue, one.seconds(l.now()), shard)
	}
}
