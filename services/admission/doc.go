// Package admission answers whether tokens may be spent. It is a NATS micro
// service; any number of nodes share the requests of one queue group, and the
// truth is in DynamoDB alone.
//
//	request ──▶ handle ──▶ committer of the bucket shard ──▶ newPlan ──▶ one write ──▶ answers
//	           decode,     queue while a write is            pure       conditional
//	           shed        in flight
//
// # Words
//
//   - A request is one message; it is answered exactly once.
//   - A call is one operation of a request on one bucket shard: an acquire, or
//     the settlement of a lease.
//   - A committer has one write in flight for its shard. What arrives meanwhile
//     waits and goes into the next one; a lone call goes out at once.
//   - A flight is a committer at work: it resolves settings, reads, syncs and
//     writes, step by step, until nothing waits.
//   - A plan is one write and a verdict for each call. It never admits without
//     the write; it denies without one where a state at most 1 s old is short.
//   - The settings of a bucket are its resolved limits; a sync brings an item to
//     new ones.
//
// # Example
//
// Two callers want 1 and 3 tokens of a bucket that holds 3. Both wait while
// another write is in flight. When it returns, the plan admits the first, and
// the second neither fits nor is denied: only its mate keeps it out, and the
// mate's write may fail. The write takes 1 token. The item it brings holds 2, so
// that the next plan denies the second call, without a write, and says when 3
// tokens will be there.
package admission
