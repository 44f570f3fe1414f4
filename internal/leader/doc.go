// Package leader reads from and writes to the leader of a JetStream stream.
//
// # Words
//
//   - A direct get may be answered by any replica, which may be behind. Reads here
//     are answered by the leader alone.
//   - A batch is an atomic batch: the server stores all of its messages, or no message.
//   - A term is the time in which a server process leads the stream without a
//     break. A stream loses messages only between two terms.
//
// # An example
//
//	batch, err := leader.Publish(ctx, nc, messages)  // ErrFenced: another writer was faster
//	m, err := leader.Last(ctx, nc, "ORDERS", "orders.42") // ErrNone: the subject has no message
//	term, err := leader.TermOf(ctx, nc, "ORDERS")
package leader
