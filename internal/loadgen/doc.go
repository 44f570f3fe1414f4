// Package loadgen puts load on a running Tidegate through the public client and
// reports the results: the admissions, their latencies, their cost, and whether any
// limit was exceeded.
//
//	Replay: rows of a trace ─┐                     ┌─▶ journal ─┬─▶ counts, latencies
//	                         ├─▶ pkg/client ─▶ NATS│            └─▶ CheckLimit ─▶ Verdict
//	Load:   callers, a rate ─┘                     │
//	admission nodes' /metrics, before and after ───┴──────────────▶ Cost
//
// # Words
//
//   - A closed loop sends the next request after the reply to the last;
//     an open loop sends when a request is due, as independent users do. Its
//     latencies count from then.
//   - The journal holds an Entry for every reply that spent or refunded tokens.
//   - A window is a stretch of time of the run. For each limit and each window,
//     the certain spends must not exceed the sum of the capacity, the refill and
//     the possible credits. A Violation is a window in which they do.
//
// # Example
//
// A limit of 100 per minute, and two admissions of 80 tokens:
//
//	0 s      1 s      2 s      3 s
//	├─ 80 ─┤            ├─ 80 ─┤        sent … answered
//	└────────── window ────────┘        160 > 100 + 5 of refill: exceeded by 55
//
// The verdict is recomputed from the replies alone. It shares no code with the
// admission service, and it reports only certain violations: if the replies leave the
// order of events open, it assumes the order that favours the system.
package loadgen
