// Package loadgen puts load on a running Tidegate, through the client that users
// have, and reports what came of it: what was admitted, how long it took, what
// it cost, and whether any limit was exceeded.
//
//	Replay: rows of a trace ─┐                     ┌─▶ journal ─┬─▶ counts, latencies
//	                         ├─▶ pkg/client ─▶ NATS│            └─▶ CheckLimit ─▶ Verdict
//	Load:   callers, a rate ─┘                     │
//	admission nodes' /metrics, before and after ───┴──────────────▶ Cost
//
// # Words
//
//   - A closed loop sends the next request when the reply to the last is there;
//     an open loop sends when a request is due, as independent users do. Its
//     latencies count from then.
//   - The journal holds an Entry for every reply that spent or gave back.
//   - A window is a stretch of time of the run. For each limit and each window,
//     what certainly went out in it must not be more than the capacity, the
//     refill and what possibly came in. A Violation is a window where it is.
//
// # Example
//
// A limit of 100 per minute, and two admissions of 80 tokens:
//
//	0 s      1 s      2 s      3 s
//	├─ 80 ─┤            ├─ 80 ─┤        sent … answered
//	└────────── window ────────┘        160 > 100 + 5 of refill: exceeded by 55
//
// The verdict is recomputed from the replies alone. It shares no code with what
// admits, and it only speaks of what is certain: where the replies leave open in
// which order things took place, it assumes the order that speaks for the system.
package loadgen
