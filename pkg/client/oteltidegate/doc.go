// Package oteltidegate makes spans of OpenTelemetry of a client's requests, and
// sends their trace along, so that a trace goes on in Tidegate to the store.
//
// It is a package of its own so that programs without OpenTelemetry do not have to
// have it.
//
// # Words
//
//   - A trace crosses NATS in the header traceparent, as W3C Trace Context has it.
//   - A [Carrier] is NATS headers as OpenTelemetry's propagators see them. NATS
//     tells upper from lower case in header names, and HTTP does not.
//
// # An example
//
//	client, err := tidegate.New(nc, oteltidegate.Traces(otel.GetTracerProvider()))
//	…
//	lease, err := client.Acquire(ctx, "api-key-123", "gpt-4", tidegate.Consume{"rpm": 1})
//
//	your span ──▶ tidegate acquire ──NATS, traceparent──▶ admission acquire ──▶ bucket write ──▶ DynamoDB.UpdateItem
package oteltidegate
