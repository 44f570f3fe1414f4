package store

import (
	"context"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"
)

// scope is the name under which spans are made.
const scope = "github.com/tidegate/tidegate/internal/store"

// startSpan starts the span of a call within that of the context; nil where there
// is none that is kept. A call of nobody's is in no trace: relays ask several times
// a second, whether anything happens or not.
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

// endSpan ends it. A condition that failed is an answer, and no error.
func endSpan(span trace.Span, result Result, err error) {
	span.SetAttributes(attribute.String("tidegate.result", string(result)))
	if result == ResultThrottled || result == ResultError {
		span.SetStatus(codes.Error, err.Error())
	}
	span.End()
}
