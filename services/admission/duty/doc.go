// Package duty decides whether an admission node takes requests. A node that makes no
// progress leaves the queue group while another node can serve, and comes back by itself.
//
// # Terms
//
//   - signal: a measure of progress, such as the replies of the store. It reports for how
//     long the node has made none. A node is stuck if a signal exceeds its patience.
//   - on duty, away: whether the node is in the queue group.
//   - able: a node that is on duty and not stuck. Nodes report their state to each other
//     twice a second, on api.DutySubject.
//
// # Rules
//
//	on duty ── stuck for 1.5 s, and another node is able ────▶ away
//	   ▲                                                         │
//	   └── not stuck for a while, or no other node is able ◀─────┘
//
// If the store fails for all nodes, no node is able, so that all stay and answer by the
// policies of the limits. The while doubles each time that a node leaves soon after it
// came back.
package duty
