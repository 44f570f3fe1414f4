// Package storecalls counts and times what a service asks of DynamoDB, in the
// same metrics for every service. A call that is made within a span is one too.
//
// # Words
//
//   - A call is one attempt: a request and its answer, or the lack of one. What
//     the SDK tries again by itself is several calls.
//   - A result is what came of a call: ok, refused (its condition failed),
//     throttled, or error.
//
// # An example
//
//	watched, err := storecalls.Watch(cfg, storecalls.Options{Service: "relay", Metrics: registry, Mono: mono})
//	if err != nil {
//		return err
//	}
//	client := dynamodb.NewFromConfig(watched)
//
//	client ──▶ retries ──▶ [ watch ──▶ HTTP ] ──▶ DynamoDB
//	                          │
//	                          └──▶ tidegate_store_calls_total, tidegate_store_seconds, span
package storecalls
