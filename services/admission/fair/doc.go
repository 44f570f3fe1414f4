// Package fair bounds the calls to the store that a node has in flight, and shares them
// fairly among namespaces. It has no clock and does no I/O: callers pass the time.
//
//	bucket shards that need the store
//	     │ Enter                              Leave, Ended
//	     ▼                                         ▲
//	queue per namespace ──▶ the namespace with ──▶ turn: calls to
//	  settlements first      the fewest turns      the store
//	                                               at most limit
//
// # Words
//
//   - A turn is the right to call the store. A bucket shard takes a turn for a step of its
//     work, one or two calls, and waits again for the next step.
//   - A ticket stands for the owner of a turn: it is idle, waits, or has a turn.
//   - The limit is the number of turns at a time. It follows the latency of the store.
//   - The base of a form of call is its latency while the store has no queue.
//
// # Fair shares
//
// A free turn goes to the waiting namespace that has the fewest turns, and among those to
// the namespace that was served longest ago. So namespaces that wait have equal numbers of
// turns, however many tickets they queue, and a namespace whose calls hang holds no more
// than its share of the time. A namespace that has no turn waits for at most one turn of each
// other namespace. Within a namespace, settlements go before acquires, but at least every
// fifth turn is an acquire's; within a class the order is that of arrival.
//
// # Example
//
// The limit is 2. Namespace a has two turns and a thousand tickets that wait; b asks for a
// turn. The first turn that ends goes to b, which has none, the next to a again.
//
// # The limit
//
// Every 100 ms, the mean latency of each form of call is compared with a target: twice the
// base and 3 ms. The limit is multiplied by the square root of target ÷ latency, between
// 0.7 and 1.5; it grows only if it was reached. A store that is the bottleneck has
// latency = limit ÷ rate, so that the limit settles at about twice the number of calls that
// the store carries out at once: always work for the store, and a short queue in it.
//
// A base is the smallest mean of the last two epochs of up to 32 s. If the limit was reached
// all the time, the next epoch begins with a window at half of what the store carries out
// at once, because a base cannot be learned from a queue.
package fair
