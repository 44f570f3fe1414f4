// Package admission answers whether tokens may be spent. It is a NATS micro service. Any
// number of nodes share the requests of a queue group; only DynamoDB holds the truth.
//
// # The rooms
//
// A request passes through three rooms, from the top down. A room calls the rooms below
// it, and gets verdicts back; no call runs upwards.
//
//	NATS
//	  │ message
//	  ▼
//	shell    nats.go, request.go      decode, shed, reply, drain
//	  │ acquire                                ▲ answer, admit or deny
//	  ▼                                        │
//	route    router, task             (cascade level × shard) of the acquire
//	  │        cascade                all levels or no level: ask, refund, deny
//	  │        bucketState            shards of a bucket: choose, double, merge
//	  │        multiShardSpend        a spend over several shards
//	  │ submit                                 ▲ verdict: commit, deny, show, drop,
//	  ▼                                        │          moved, divided, hot
//	shard    writer, flight           a queue, and a write in flight
//	  │        governance             the settings that hold
//	  │        newPlan (pure)         a write, and a verdict for each call
//	  ▼
//	DynamoDB   bucketStore            conditional writes
//
// An acquire of a bucket of a single shard goes straight from the handler to the queue of
// its writer. The writer prepares the reply while DynamoDB works on the write.
//
// The rooms talk by a few small types:
//
//   - The router makes a call, a writer answers it with a verdict. verdictDivided tells the
//     router to start a multi-shard spend, verdictMoved to start a cascade, or, for a
//     settlement of a shard that is gone, to hand it to the parent shard.
//   - The writer tells its recorder about throttles, debt and load. The router's member is
//     the recorder; it doubles or merges shards, and reports the load.
//   - The router tells the replier of an acquire the outcome, and the shell replies.
//   - All rooms share the node's env: store, clock, worker pool, nonces, metrics and log.
//
// Package lease issues and settles leases, and reaches buckets through this package. Package
// live follows the change feed and remembers invalidations; it calls no room. The control
// plane is handed in: see [Control].
//
// # Words
//
//   - A request is a message. It is answered exactly once.
//   - A call is an operation on a bucket shard: an acquire, a peek, or the debits or refunds
//     of settlements. A task is an operation on its way through the router.
//   - A writer owns a shard. While a write is in flight, calls wait and go into the next
//     write; a lone call is written at once.
//   - A turn is the right to call the store, for a step of a flight. Package fair shares the
//     turns among namespaces. Without a turn, a flight parks, and plans again when it has one.
//   - A flight is a writer at work: it resolves settings, reads, syncs and writes, step by
//     step, until no calls wait.
//   - A plan is a write and a verdict for each call. It never admits without the write. It
//     denies without a write if a state at most 1 s old is short.
//   - A snapshot is a shard as a read or a write brought it.
//   - A cascade level is a bucket that a cascade spends from, the child's first. Its standing
//     is its state before it is asked, or its answer.
//   - To refund a level is to undo its spend. To peek is to ask for a state at most 1 s old.
//   - A bucket is divided over several shards if a partition cannot carry its writes. Each
//     shard has a writer. A multi-shard spend chooses a shard, or takes from several shards
//     in a transaction.
//   - A hot shard was throttled a moment ago: other shards are asked first.
//   - The load is the demand that the table does not show. Each node reports it every second.
//   - An override bucket has the limits that its requests bring.
//   - The settings of a bucket are its resolved limits. A sync brings an item to new settings.
//   - An invalidation announces changed configuration. It comes from the node that served the
//     change, and from the change feed. A bucket checks for invalidations when it is used.
//
// # Example
//
// Two callers want 1 and 3 tokens of a bucket that holds 3. Both wait while another write
// is in flight. When it returns, the plan admits the first call. The second call neither
// fits nor is denied: only the first keeps it out, and the write of the first may fail. The
// write takes 1 token and brings an item that holds 2. So the next plan denies the second
// call, without a write, and says when the bucket will hold 3 tokens.
package admission
