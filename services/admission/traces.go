package admission

import (
	"context"

	"github.com/nats-io/nats.go/micro"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"

	"github.com/tidegate/tidegate/pkg/api"
	"github.com/tidegate/tidegate/pkg/client/oteltidegate"
)

// scope is the name under which spans are made.
const scope = "github.com/tidegate/tidegate/services/admission"

// begin starts the request's span, as a part of its caller's trace, where traces
// are made and this one is kept.
func (r *request) begin(headers micro.Headers) {
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

// end ends the request's span. What the caller did wrong is no error of ours.
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

// failed reports an outcome that is not what it should be, whatever was asked.
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

// traced is ctx within a span, where there is one.
func traced(ctx context.Context, span trace.Span) context.Context {
	if span == nil {
		return ctx
	}
	return trace.ContextWithSpan(ctx, span)
}
