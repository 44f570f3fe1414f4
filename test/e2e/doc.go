// Package e2e runs whole systems, every service of them in one process with the
// test, and holds what comes out at their end against what went in.
//
//	callers ──▶ admission ──▶ engine ── stream ──▶ relays ──▶ change feed ──▶ aggregators ──▶ usage snapshots
//	                            │                                 └──▶ admission (configuration)        │
//	                            └── every commit ──▶ ledger ── the same sums, another way ──▶ must equal ┘
//
// Audit events that expire take the other branch: relays ──▶ change feed ──▶ archivers
// ──▶ object store, and the trail of both must be whole.
//
// # Words
//
//   - A process is a running service with a connection of its own; it leaves as
//     after a signal, or crashes: cut off from one moment to the next.
//   - The ledger has what the engine committed, counted without any code of the
//     feed.
//
// # An example
//
//	w := newWorld(t, options{})
//	w.admission(t)
//	w.relay(t, "relay-1")
//	w.aggregator(t, "aggregator-1")
//	… acquire …
//	w.mustBeCounted(t) // every snapshot equals the change of the counters
package e2e
