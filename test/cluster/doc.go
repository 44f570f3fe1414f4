// Package cluster tests the services on a NATS cluster of three servers, as processes
// with the files of deploy/nats, streams with three replicas, and callers on every server:
//
//	callers ── each to a server ──▶ nats-1 ── nats-2 ── nats-3 ◀── 3 admission nodes, 2 relays, …
//
// The processes are killed, hang (SIGSTOP), are restarted and lose the lead of streams
// under load. The log has the figures: how many replies were lost, and until when. At the
// end, usage is exact.
//
// The tests take over a minute, so that `make test` leaves them out: `make test-cluster`.
package cluster
