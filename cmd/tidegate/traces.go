package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"
)

// flushTimeout is how long the last spans may take at the end.
const flushTimeout = 5 * time.Second

// traces creates spans and sends them to OTEL_EXPORTER_OTLP_ENDPOINT or
// OTEL_EXPORTER_OTLP_TRACES_ENDPOINT. If neither is set, provider is nil and nothing is
// traced. OpenTelemetry reads its other variables (headers, certificates, samplers,
// names) itself. flush sends the remaining spans.
func (p environment) traces(ctx context.Context, service string, log *slog.Logger) (provider trace.TracerProvider, flush func(), err error) {
	const endpoint, tracesEndpoint = "OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT"
	if p.getenv(endpoint) == "" && p.getenv(tracesEndpoint) == "" || p.getenv("OTEL_SDK_DISABLED") == "true" || p.getenv("OTEL_TRACES_EXPORTER") == "none" {
		return nil, func() {}, nil
	}
	for _, name := range []string{"OTEL_EXPORTER_OTLP_PROTOCOL", "OTEL_EXPORTER_OTLP_TRACES_PROTOCOL"} {
		if value := p.getenv(name); value != "" && value != "http/protobuf" {
			return nil, nil, usageError{fmt.Errorf("%s is %q: traces are sent by http/protobuf alone, usually to port 4318", name, value)}
		}
	}
	exporter, err := otlptracehttp.New(ctx)
	if err != nil {
		return nil, nil, fmt.Errorf("export traces: %w", err)
	}
	described, err := resource.New(ctx,
		resource.WithTelemetrySDK(),
		resource.WithAttributes(attribute.String("service.name", service), attribute.String("service.version", thisVersion().Version)),
		resource.WithFromEnv())
	if err != nil && !errors.Is(err, resource.ErrPartialResource) {
		return nil, nil, fmt.Errorf("describe the source of traces: %w", err)
	}
	otel.SetErrorHandler(otel.ErrorHandlerFunc(func(err error) {
		log.WarnContext(ctx, "traces cannot be exported", "error", err)
	}))
	sdk := sdktrace.NewTracerProvider(sdktrace.WithBatcher(exporter), sdktrace.WithResource(described))
	return sdk, func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), flushTimeout)
		defer cancel()
		if err := sdk.Shutdown(ctx); err != nil {
			log.WarnContext(ctx, "the last traces were not exported", "error", err)
		}
	}, nil
}
