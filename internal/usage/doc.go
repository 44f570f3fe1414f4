// Package usage has the windows that usage is summed up over, and reads the
// snapshots that the aggregator keeps of them.
//
//	10:59:59.999 ──▶ hourly 10:00, daily 00:00, monthly the 1st
//	11:00:00.000 ──▶ hourly 11:00, …
//
// # Words
//
//   - A window is a length of time, such as an hour; a span is one hour. Spans
//     begin and end in UTC.
//   - A snapshot is what an entity used of a resource in one span.
//   - A total sums up one limit over spans.
//   - An override is what was spent under limits that requests brought themselves.
//     It lives in buckets of its own and so has snapshots of its own, which are
//     listed with those of the resource.
//
// # Example
//
//	page, err := store.List(ctx, ns, api.UsageRequest{Entity: "alice", Resource: "gpt-4", Window: api.WindowDaily})
//	// page.Snapshots = gpt-4, 1 March: 12 acquires, tpm 4800; gpt-4, 2 March: …
package usage
