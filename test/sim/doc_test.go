// Package sim_test runs the whole system from a seed: admission nodes, relays, aggregators,
// sharders, archivers and callers in one process, in virtual time, under one scheduler that
// decides what happens next.
//
//	callers ── pkg/client ──▶ simnats ◀──▶ services ◀──▶ gates ──▶ engine/fault ──▶ engine
//	                            ▲                           ▲            │
//	                            └──────── scheduler ────────┘            ▼ every write
//	                                         │                        account
//	                                         └──▶ trace, story, every reply ──▶
//
// # Terms
//
//   - A plan is drawn from a seed: the topology, the limits, the pace of callers, and the
//     chances of disturbances.
//   - A world is a running plan, in a bubble of testing/synctest: time passes only while all
//     goroutines wait.
//   - A step lets one event happen: messages of a link move on, the store executes a request,
//     a reply reaches its caller, an operation begins, a disturbance strikes.
//   - A disturbance is a fault of the store, a lost or held message, a cut, a partition, a
//     kill, a pause, a clock that is set, or NATS that forgets.
//   - The account checks the promises from every reply and every write, without code of the
//     services.
//   - The trace is the sequence of events; its hash identifies a history.
//
// # Commands
//
//	make sim SEED=50 STEPS=2000    run a seed twice, compare the traces, tell its story
//	make sim-night                 run seeds until stopped; failing seeds are minimised and kept
//
// # What the scheduler does not drive
//
//   - A select with several ready cases and the order of a map are the runtime's choice, and
//     so is the order of goroutines that are ready at the same instant, if the machine's own
//     scheduler interrupts the process. Events are sorted by names before one is drawn, so
//     that most of this has no effect; about one trace in twenty still differs.
//   - A goroutine that waits for a mutex cannot be seen as waiting. The handshake of a
//     connection, and the reply to the creation of a consumer, are therefore never late.
//   - Random identifiers (nuid) differ between processes. They are not in the trace.
package sim_test
