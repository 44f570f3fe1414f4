package oteltidegate

import (
	"context"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"

	tidegate "github.com/tidegate/tidegate/pkg/client"
)

// scope is the name under which spans are made.
const scope = "github.com/tidegate/tidegate/pkg/client/oteltidegate"

// Traces returns the option that records each request of a client as a span, a child of
// the span in the call's context. A denial is not an error of the span; an *Error, an
// *UnavailableError and a context's error are.
func Traces(provider trace.TracerProvider) tidegate.Option {
	tracer := provider.Tracer(scope)
	return tidegate.WithObserver(func(ctx context.Context, call *tidegate.Call) func(error) {
		ctx, span := tracer.Start(ctx, "tidegate "+string(call.Verb),
			trace.WithSpanKind(trace.SpanKindClient),
			trace.WithAttributes(
				attribute.String("tidegate.namespace", call.Namespace),
				attribute.String("tidegate.request_id", call.RequestID),
			))
		propagation.TraceContext{}.Inject(ctx, Carrier(call.Header))
		return func(err error) {
			if err != nil {
				span.SetStatus(codes.Error, err.Error())
			}
			span.End()
		}
	})
}
