package store

import (
	"context"
	"fmt"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awsmiddleware "github.com/aws/aws-sdk-go-v2/aws/middleware"
	"github.com/aws/smithy-go/middleware"
	"github.com/prometheus/client_golang/prometheus"
)

// WatchOptions configure Watch.
type WatchOptions struct {
	Service string // a label of all metrics, so that several services run in one process
	Metrics prometheus.Registerer
	Mono    func() time.Duration // monotonic time
}

// Monotonic returns a monotonic clock made from a wall clock whose readings carry
// monotonic time.
func Monotonic(now func() time.Time) func() time.Duration {
	start := now()
	return func() time.Duration { return now().Sub(start) }
}

// buckets returns the bounds of the histogram in seconds: from an embedded engine
// to the longest timeout of a call.
func buckets() []float64 {
	return []float64{.0005, .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5}
}

// Watch returns a configuration whose clients count and time their calls. It fails
// if the registry already has the service's metrics.
func Watch(cfg aws.Config, o WatchOptions) (aws.Config, error) {
	labels := prometheus.Labels{"service": o.Service}
	w := &watch{
		mono: o.Mono,
		calls: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "tidegate_store_calls_total", Help: "Calls to DynamoDB, counting each attempt, by operation and result: ok, refused, throttled or error.",
			ConstLabels: labels,
		}, []string{"operation", "result"}),
		seconds: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "tidegate_store_seconds", Help: "Duration of calls to DynamoDB, by operation.",
			ConstLabels: labels, Buckets: buckets(),
		}, []string{"operation"}),
	}
	for _, c := range []prometheus.Collector{w.calls, w.seconds} {
		if err := o.Metrics.Register(c); err != nil {
			return aws.Config{}, fmt.Errorf("metrics of calls to the store: %w", err)
		}
	}
	watched := cfg.Copy()
	watched.APIOptions = append(watched.APIOptions[:len(watched.APIOptions):len(watched.APIOptions)], func(stack *middleware.Stack) error {
		return stack.Deserialize.Add(w, middleware.Before)
	})
	return watched, nil
}

// watch is the middleware that counts and times each attempt of a call.
type watch struct {
	mono    func() time.Duration
	calls   *prometheus.CounterVec
	seconds *prometheus.HistogramVec
}

// ID implements middleware.DeserializeMiddleware.
func (*watch) ID() string { return "tidegate.store" }

// HandleDeserialize implements middleware.DeserializeMiddleware.
func (w *watch) HandleDeserialize(ctx context.Context, in middleware.DeserializeInput, next middleware.DeserializeHandler) (middleware.DeserializeOutput, middleware.Metadata, error) {
	operation, began := awsmiddleware.GetOperationName(ctx), w.mono()
	ctx, span := startSpan(ctx, operation)
	out, metadata, err := next.HandleDeserialize(ctx, in)
	w.seconds.WithLabelValues(operation).Observe((w.mono() - began).Seconds())
	result := ResultOf(err)
	w.calls.WithLabelValues(operation, string(result)).Inc()
	if span != nil {
		endSpan(span, result, err)
	}
	return out, metadata, err
}
