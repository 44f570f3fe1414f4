package admission

import (
	"context"
	"errors"

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

// maxLinks is how many requests the span of one write is linked to at most, which
// is also what the SDK keeps by default.
const maxLinks = 128

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

// Names of spans.
const (
	spanResolve = "bucket resolve" // read the limits that hold
	spanRead    = "bucket read"
	spanSync    = "bucket sync"
	spanCommit  = "bucket commit" // creates included
	spanGather  = "bucket gather"
)

// trace starts the span of what is asked of the store for several calls at once;
// end ends it. It is part of the trace of the first of them that has one, and each
// of the others is linked to it, both ways.
func (c *committer) trace(ctx context.Context, name string, calls []*call) (within context.Context, end func(error)) {
	if c.node.tracer == nil {
		return ctx, nothing
	}
	var links []trace.Link
	var first trace.Span
	for _, q := range calls {
		span := q.request.span
		if span == nil {
			continue
		}
		if first == nil {
			first = span
		}
		if len(links) < maxLinks {
			links = append(links, trace.Link{SpanContext: span.SpanContext()})
		}
	}
	if first == nil {
		return ctx, nothing
	}
	within, span := c.node.tracer.Start(trace.ContextWithSpan(ctx, first), name, trace.WithLinks(links...),
		trace.WithAttributes(attribute.Int("tidegate.operations", len(calls)), attribute.Int("tidegate.shard", c.key.Shard)))
	for _, q := range calls {
		if of := q.request.span; of != nil && of != first {
			of.AddLink(trace.Link{SpanContext: span.SpanContext()})
		}
	}
	return within, func(err error) {
		var refusal *api.Error
		if err != nil && !errors.As(err, &refusal) {
			span.SetStatus(codes.Error, err.Error())
		}
		span.End()
	}
}

// failure is what is wrong with a write. A condition that failed is not: it brought
// the truth, and the flight goes on.
func (a answer) failure() error {
	if a.outcome == outcomeRefused {
		return nil
	}
	return a.err
}

// nothing ends a span that is not there.
func nothing(error) {}
