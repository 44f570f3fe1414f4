// Package observe tests what operators look at: that the metrics which
// docs/metrics.md lists are those that the services have, and that each of them
// moves when what it counts happens.
//
// # Words
//
//   - A move is something that is done to a running system, and the metrics that
//     must show it.
//   - A process is a service with a registry of its own, as it has as a program of
//     its own.
//
// # An example
//
//	s := newSystem(t)                                   // a store, NATS, and one process of each service
//	before := s.value("tidegate_admission_shed_total")
//	s.flood()                                           // more requests than may wait
//	s.moves("tidegate_admission_shed_total", before)    // waits until it has
//
//	docs/metrics.md ◀── compared both ways ──▶ registries ◀── admission, relay, aggregator, archiver
//	                                                              │
//	                              moves ──▶ NATS, fault layer ────┘
package observe
