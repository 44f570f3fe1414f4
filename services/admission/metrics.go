package admission

import (
	"math"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/tidegate/tidegate/pkg/api"
)

// Outcomes of requests, beside the codes of errors.
const (
	outcomeOK       = "ok"
	outcomeDenied   = "denied"
	outcomeDegraded = "degraded"
)

// metrics are the service's Prometheus metrics. Every label takes its values
// from a closed list: no entity, resource or namespace is one.
type metrics struct {
	requests  *prometheus.CounterVec
	usual     map[usualOutcome]usualMetrics // of requests, resolved once: most requests end so
	latency   *prometheus.HistogramVec
	batch     prometheus.Histogram
	calls     *prometheus.CounterVec
	callTime  *prometheus.HistogramVec
	outcomes  *prometheus.CounterVec
	units     *prometheus.CounterVec
	panics    prometheus.Counter
	abandoned prometheus.Counter
}

type usualOutcome struct{ verb, outcome string }

type usualMetrics struct {
	requests prometheus.Counter
	latency  prometheus.Observer
}

// latencyBuckets in seconds: from a reply made of known state to the longest wait.
func latencyBuckets() []float64 {
	return []float64{.0001, .00025, .0005, .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5}
}

func newMetrics(reg prometheus.Registerer) (*metrics, error) {
	m := &metrics{
		requests: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "tidegate_admission_requests_total",
			Help: "Requests answered, by verb and outcome: ok, denied, degraded or an error code.",
		}, []string{"verb", "outcome"}),
		latency: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "tidegate_admission_request_seconds", Help: "Time from receipt to answer, by verb.", Buckets: latencyBuckets(),
		}, []string{"verb"}),
		batch: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name:    "tidegate_admission_batch_size",
			Help:    "Operations that one applied bucket write committed.",
			Buckets: prometheus.ExponentialBuckets(1, 4, 8),
		}),
		calls: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "tidegate_admission_store_calls_total", Help: "Calls to DynamoDB for buckets, by form and result: ok or error.",
		}, []string{"form", "result"}),
		callTime: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "tidegate_admission_store_seconds", Help: "Duration of calls to DynamoDB for buckets, by form.", Buckets: latencyBuckets(),
		}, []string{"form"}),
		outcomes: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "tidegate_admission_write_failures_total",
			Help: "Bucket writes that brought an error, by form and what was found out: applied, refused, throttled, failed or unknown.",
		}, []string{"form", "outcome"}),
		units: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "tidegate_admission_capacity_units_total",
			Help: "Capacity units that bucket calls have cost, by form; of form read they are read units, else write units, refused writes included.",
		}, []string{"form"}),
		panics: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "tidegate_admission_panics_total", Help: "Panics that were recovered; each is a bug.",
		}),
		abandoned: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "tidegate_admission_spent_unanswered_total",
			Help: "Acquires whose tokens were spent, or may be, but whose caller got the unavailable policy's answer.",
		}),
	}
	for _, c := range []prometheus.Collector{
		m.requests, m.latency, m.batch, m.calls, m.callTime, m.outcomes, m.units, m.panics, m.abandoned,
	} {
		if err := reg.Register(c); err != nil {
			return nil, err
		}
	}
	m.usual = make(map[usualOutcome]usualMetrics)
	for _, u := range []usualOutcome{{string(api.VerbAcquire), outcomeOK}, {string(api.VerbAcquire), outcomeDenied}} {
		m.usual[u] = usualMetrics{m.requests.WithLabelValues(u.verb, u.outcome), m.latency.WithLabelValues(u.verb)}
	}
	return m, nil
}

// gauges registers what is read off the service when it is asked for.
func (s *Service) gauges(reg prometheus.Registerer) error {
	for _, g := range []struct {
		name, help string
		value      func() float64
	}{
		{"tidegate_admission_pending_requests", "Requests that wait for their answer.", func() float64 { return float64(s.pending.Load()) }},
		{"tidegate_admission_remembered_buckets", "Bucket states in memory.", func() float64 { return float64(s.remembered()) }},
		{
			"tidegate_admission_clock_correction_seconds", "How far this node's clock is known to be ahead of the store's; beyond 2 s it stops writing.",
			func() float64 { return s.clock.Correction().Seconds() },
		},
	} {
		if err := reg.Register(prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: g.name, Help: g.help}, g.value)); err != nil {
			return err
		}
	}
	return nil
}

func (m *metrics) request(verb, outcome string, took time.Duration) {
	if u, ok := m.usual[usualOutcome{verb, outcome}]; ok {
		u.requests.Inc()
		u.latency.Observe(took.Seconds())
		return
	}
	m.requests.WithLabelValues(verb, outcome).Inc()
	m.latency.WithLabelValues(verb).Observe(took.Seconds())
}

func (m *metrics) storeCall(form string, took time.Duration, err error) {
	result := "ok"
	if err != nil {
		result = "error"
	}
	m.calls.WithLabelValues(form, result).Inc()
	m.callTime.WithLabelValues(form).Observe(took.Seconds())
}

func (m *metrics) writeFailure(form string, o outcome) {
	m.outcomes.WithLabelValues(form, o.String()).Inc()
}

// cost counts what a call has cost and returns it in whole units, at least 1.
func (m *metrics) cost(form string, c *types.ConsumedCapacity) int64 {
	units := 1.0
	if c != nil && c.CapacityUnits != nil {
		units = *c.CapacityUnits
	}
	m.units.WithLabelValues(form).Add(units)
	return max(1, int64(math.Ceil(units)))
}

// refusal counts what a refused write has cost: what the item's writes cost.
func (m *metrics) refusal(form string, units int64) {
	m.units.WithLabelValues(form).Add(float64(units))
}
