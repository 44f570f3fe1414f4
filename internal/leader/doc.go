// Package leader reads from and writes to the leader of a JetStream stream.
//
// # Words
//
//   - A direct get may be answered by any replica, which may be behind. Reads here
//     are answered by the leader alone.
//   - A batch is an atomic batch: all of its messages are stored, or none.
//   - A term is the time in which one server process leads the stream without a
//     break. A stream loses messages only between two terms.
//
// # An example
//
//	batch, err := leader.Publish(ctx, nc, messages)  // ErrFenced: another writer was faster
//	m, err := leader.Last(ctx, nc, "ORDERS", "orders.42") // ErrNone: there is none
//	term, err := leader.TermOf(ctx, nc, "ORDERS")
package leader
