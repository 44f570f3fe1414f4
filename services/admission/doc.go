// Package admission answers whether tokens may be spent. It is a NATS micro
// service; any number of nodes share the requests of one queue group, and the
// truth is in DynamoDB alone.
//
//	request ──▶ handle ──▶ committer of the bucket shard ──▶ newPlan ──▶ one write ──▶ answers
//	           decode,     queue while a write is            pure       conditional
//	           shed        in flight
//
// An acquire of an entity that cascades goes to the committer of each level:
//
//	                    ┌──▶ committer of the child ───▶ …  ┐
//	handle ──▶ cascade ─┼──▶ committer of its parent ──▶ …  ├──▶ all spent: admitted
//	           nextMove ├──▶ committer of the parent's ▶ …  ┘    one refuses: the others take back
//	           pure     └◀── what each has seen last
//
// Package lease issues and settles leases, and reaches buckets through this package. The
// control plane is handed in: see [Control].
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
//   - A level is one of the buckets that a cascade spends from, the child's first.
//     Its standing is what is known of it, or what it answered.
//   - To take back is to undo a level's spend, as if it had never been. To look is
//     to ask a committer for a state at most 1 s old.
//   - A bucket is spread over several shards when one partition cannot carry its
//     writes. Each shard has a committer of its own; shard 0's stands for the bucket
//     and hands over what concerns all of them. To gather is to spend from several
//     of them in one transaction.
//   - A hot shard is one that was throttled a moment ago: others are asked first.
//     What a node is asked for and the table does not show is its load, which it
//     reports once a second.
//   - Brought limits are those of a request; their bucket is an override bucket.
//   - The settings of a bucket are its resolved limits; a sync brings an item to
//     new ones.
//   - News is what a node has heard of changed configuration, from the node that
//     served the change and from the change feed. Whoever uses a bucket asks it
//     whether the settings are still good.
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
