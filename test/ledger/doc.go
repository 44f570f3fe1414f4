// Package ledger counts usage another way than Tidegate does, for tests to hold
// against what Tidegate says.
//
//	the engine's commits ────────┐
//	the table's change stream ───┴─▶ Change ──▶ Ledger.Totals ── must equal ── Snapshots ◀── the table
//
// It reads the counters off the attributes, as plainly as can be, and shares no code
// with the change feed and its services: therefore it spells the names of attributes
// itself.
//
// # Words
//
//   - A change is one write of one item, with the item's numbers before and after.
//   - A total is the sum of the changes of one entity and resource in one window.
//
// # An example
//
//	var l ledger.Ledger
//	l.Add(ledger.Change{At: at, PK: "ns/BUCKET#key#gpt-4#0", New: map[string]int64{"b_rpm_tc": 3000, "an": 3}})
//	l.Totals() // key on gpt-4, in that hour and on that day: 3000 of rpm, 3 acquires
package ledger
