package admission

import (
	"context"

	"github.com/nats-io/nats.go"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"

	"github.com/tidegate/tidegate/pkg/api"
	"github.com/tidegate/tidegate/pkg/client/oteltidegate"
)

// scope is the name under which spans are made.
const scope = "github.com/tidegate/tidegate/services/admission"

// begin starts the request's span, as a part of its caller's trace, if traces are made and
// the caller's trace is sampled.
func (r *request) begin(headers nats.Header) {
	tracer := r.service.tracer
	if tracer == nil {
		return
	}
	ctx := propagation.TraceContext{}.Extract(context.Background(), oteltidegate.Carrier(headers))
	_, span := tracer.Start(ctx, "admission", trace.WithSpanKind(trace.SpanKindServer))
	if span.IsRecording() {
		r.span = span
	}
}

// end ends the request's span. A mistake of the caller is no error of the span.
func (r *request) end(outcome string) {
	if r.span == nil {
		return
	}
	r.span.SetName("admission " + string(r.verb))
	r.span.SetAttributes(
		attribute.String("tidegate.namespace", r.namespace),
		attribute.String("tidegate.request_id", r.id()),
		attribute.String("tidegate.outcome", outcome),
	)
	if failed(outcome) {
		r.span.SetStatus(codes.Error, outcome)
	}
	r.span.End()
}

// failed reports an outcome that is a failure of the service.
func failed(outcome string) bool {
	switch outcome {
	case outcomeOK, outcomeDenied:
		return false
	case outcomeDegraded:
		return true
	}
	code := api.Code(outcome)
	return code == api.CodeDeadlineExceeded || code.Status() >= api.CodeInternal.Status()
}

// traced returns ctx within a span; span may be nil.
func traced(ctx context.Context, span trace.Span) context.Context {
	if span == nil {
		return ctx
	}
	return trace.ContextWithSpan(ctx, span)
}
