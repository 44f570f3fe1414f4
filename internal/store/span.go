package store

import (
	"context"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"
)

// scope is the name of the tracer.
const scope = "github.com/tidegate/tidegate/internal/store"

// startSpan starts the span of a call within the span of the context. It returns
// nil if the context has no recorded span: calls without a request, such as the
// polls of relays, are not traced.
func startSpan(ctx context.Context, operation string) (context.Context, trace.Span) {
	parent := trace.SpanFromContext(ctx)
	if !parent.IsRecording() {
		return ctx, nil
	}
	// Names as the semantic conventions have them.
	return parent.TracerProvider().Tracer(scope).Start(ctx, "DynamoDB."+operation,
		trace.WithSpanKind(trace.SpanKindClient),
		trace.WithAttributes(attribute.String("db.system.name", "aws.dynamodb"), attribute.String("db.operation.name", operation)))
}

// endSpan ends the span. A condition that failed is an answer, not an error.
func endSpan(span trace.Span, result Result, err error) {
	span.SetAttributes(attribute.String("tidegate.result", string(result)))
	if result == ResultThrottled || result == ResultError {
		span.SetStatus(codes.Error, err.Error())
	}
	span.End()
}
