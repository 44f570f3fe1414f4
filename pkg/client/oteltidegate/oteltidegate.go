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

// Traces is the option with which each request of a client is a span, a child of
// the one in the call's context. A denial is no error of it; what Acquire and the
// others return as an *Error, an *UnavailableError or a context's error is.
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
