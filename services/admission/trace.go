package admission

import (
	"context"
	"errors"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"

	"github.com/tidegate/tidegate/pkg/api"
)

// maxLinks bounds the requests that the span of a write is linked to. The SDK keeps as
// many by default.
const maxLinks = 128

// Names of spans.
const (
	spanResolve = "bucket resolve" // a read of the limits that hold
	spanRead    = "bucket read"
	spanSync    = "bucket sync"
	spanCommit  = "bucket commit" // creates included
	spanMulti   = "bucket gather" // a spend from several shards
)

// trace starts the span of a store call that serves several calls at once; end ends it.
// The span is part of the trace of the first call that has a trace. Every other traced
// call is linked to it, both ways.
func (e *env) trace(ctx context.Context, name string, shard int, calls []*call) (within context.Context, end func(error)) {
	if e.tracer == nil {
		return ctx, nothing
	}
	var links []trace.Link
	var first trace.Span
	for _, q := range calls {
		span := q.request.traceSpan()
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
	within, span := e.tracer.Start(trace.ContextWithSpan(ctx, first), name, trace.WithLinks(links...),
		trace.WithAttributes(attribute.Int("tidegate.operations", len(calls)), attribute.Int("tidegate.shard", shard)))
	for _, q := range calls {
		if of := q.request.traceSpan(); of != nil && of != first {
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

// failure returns the error of a write for its span. A failed condition is no error: it
// brought the state, and the flight goes on.
func (a answer) failure() error {
	if a.outcome == outcomeRefused {
		return nil
	}
	return a.err
}

// nothing ends a span that was not started.
func nothing(error) {}
