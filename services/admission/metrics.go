package admission

import (
	"math"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/tidegate/tidegate/internal/store"
	"github.com/tidegate/tidegate/pkg/api"
)

// Outcomes of requests, besides the codes of errors.
const (
	outcomeOK       = "ok"
	outcomeDenied   = "denied"
	outcomeDegraded = "degraded"
)

// writeNone is the form of a decision without a write.
const writeNone = "none"

// Where too many calls wait.
const (
	scopeNode    = "node"
	scopeBucket  = "bucket"
	scopeControl = "control"
)

// metrics are the service's Prometheus metrics. Every label takes its values from a closed
// list; entities, resources and namespaces are never labels.
type metrics struct {
	requests  *prometheus.CounterVec
	usual     map[usualOutcome]usualMetrics // of requests, resolved once: most requests end so
	latency   *prometheus.HistogramVec
	batch     prometheus.Histogram
	calls     *prometheus.CounterVec
	callTime  *prometheus.HistogramVec
	outcomes  *prometheus.CounterVec
	units     *prometheus.CounterVec
	decided   map[decision]prometheus.Counter
	denials   map[denial]prometheus.Counter
	shed      map[string]prometheus.Counter // by scope
	panics    prometheus.Counter
	renewals  prometheus.Counter
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
	decided := prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "tidegate_admission_operations_total",
		Help: "Decided operations on buckets, by the form of the write that committed them, or none if a known state denied them; divide capacity units by operations for the cost of an operation.",
	}, []string{"form", "kind"})
	denials := prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "tidegate_admission_denials_total",
		Help: "Denied acquires, by reason (short; debt: a limit is below zero; never: above a capacity) and by the level of the limit: the entity's own, or only an ancestor's.",
	}, []string{"reason", "level"})
	shed := prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "tidegate_admission_shed_total",
		Help: "Operations shed because too many wait: on the node, for a single bucket, or (control) requests for status and administration.",
	}, []string{"scope"})
	m := &metrics{
		requests: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "tidegate_admission_requests_total",
			Help: "Answered requests, by verb and outcome: ok, denied, degraded or an error code.",
		}, []string{"verb", "outcome"}),
		latency: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "tidegate_admission_request_seconds", Help: "Time from receipt to reply, by verb.", Buckets: latencyBuckets(),
		}, []string{"verb"}),
		batch: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name:    "tidegate_admission_batch_size",
			Help:    "Operations per applied bucket write.",
			Buckets: prometheus.ExponentialBuckets(1, 4, 8),
		}),
		calls: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "tidegate_admission_store_calls_total", Help: "Calls to DynamoDB for buckets, by form and result: ok, refused, throttled or error.",
		}, []string{"form", "result"}),
		callTime: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "tidegate_admission_store_seconds", Help: "Duration of calls to DynamoDB for buckets, by form.", Buckets: latencyBuckets(),
		}, []string{"form"}),
		outcomes: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "tidegate_admission_write_failures_total",
			Help: "Bucket writes that returned an error, by form and by the outcome found afterwards: applied, refused, throttled, failed, unknown or damaged.",
		}, []string{"form", "outcome"}),
		units: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "tidegate_admission_capacity_units_total",
			Help: "Capacity units of bucket calls, by form: read units for the form read, write units for all others, refused writes included.",
		}, []string{"form"}),
		panics: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "tidegate_admission_panics_total", Help: "Recovered panics; each is a bug.",
		}),
		renewals: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "tidegate_admission_settings_dropped_total",
			Help: "Times that the node dropped all cached settings, because it may have missed changes.",
		}),
		abandoned: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "tidegate_admission_spent_unanswered_total",
			Help: "Acquires whose tokens were or may be spent, but whose caller got the unavailable policy's answer.",
		}),
	}
	for _, c := range []prometheus.Collector{
		m.requests, m.latency, m.batch, m.calls, m.callTime, m.outcomes, m.units, decided, denials, shed, m.panics, m.renewals, m.abandoned,
	} {
		if err := reg.Register(c); err != nil {
			return nil, err
		}
	}
	m.begin(decided, denials, shed)
	return m, nil
}

// begin makes the series of alerts and of the hot path, so that they exist at zero before
// the first event.
func (m *metrics) begin(decided, denials, shed *prometheus.CounterVec) {
	m.usual = make(map[usualOutcome]usualMetrics)
	acquire := string(api.VerbAcquire)
	for _, u := range []usualOutcome{{acquire, outcomeOK}, {acquire, outcomeDenied}} {
		m.usual[u] = usualMetrics{m.requests.WithLabelValues(u.verb, u.outcome), m.latency.WithLabelValues(u.verb)}
	}
	for _, outcome := range []string{
		outcomeDegraded, string(api.CodeUnavailable), string(api.CodeOverloaded), string(api.CodeDeadlineExceeded), string(api.CodeInternal),
	} {
		m.requests.WithLabelValues(acquire, outcome)
	}
	m.decided = make(map[decision]prometheus.Counter)
	for _, form := range []string{writeCommit, writeCreate, writeNone} {
		for _, kind := range []string{kindAcquire, kindSettle, kindRefund} {
			m.decided[decision{form, kind}] = decided.WithLabelValues(form, kind)
		}
	}
	m.denials = make(map[denial]prometheus.Counter)
	for _, reason := range []string{reasonShort, reasonDebt, reasonNever} {
		for _, level := range []string{levelOwn, levelAncestor} {
			m.denials[denial{reason, level}] = denials.WithLabelValues(reason, level)
		}
	}
	m.shed = make(map[string]prometheus.Counter)
	for _, scope := range []string{scopeNode, scopeBucket, scopeControl} {
		m.shed[scope] = shed.WithLabelValues(scope)
	}
	for _, form := range []string{writeCommit, writeCreate, writeSync} {
		for o := outcomeApplied; o <= outcomeDamaged; o++ {
			m.outcomes.WithLabelValues(form, o.String())
		}
		for _, result := range store.Results() {
			m.calls.WithLabelValues(form, string(result))
		}
	}
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
	m.calls.WithLabelValues(form, string(store.ResultOf(err))).Inc()
	m.callTime.WithLabelValues(form).Observe(took.Seconds())
}

func (m *metrics) writeFailure(form string, o outcome) {
	m.outcomes.WithLabelValues(form, o.String()).Inc()
}

// cost counts the cost of a call and returns it in whole units, at least 1.
func (m *metrics) cost(form string, c *types.ConsumedCapacity) int64 {
	units := 1.0
	if c != nil && c.CapacityUnits != nil {
		units = *c.CapacityUnits
	}
	m.units.WithLabelValues(form).Add(units)
	return max(1, int64(math.Ceil(units)))
}

// refusal counts the cost of a refused write, which is that of the item's other writes.
func (m *metrics) refusal(form string, units int64) {
	m.units.WithLabelValues(form).Add(float64(units))
}
