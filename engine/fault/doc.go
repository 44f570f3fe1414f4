// Package fault injects faults between a DynamoDB client and its back end: slow
// replies, throttles, failures, lost replies to completed writes, partitions with
// limited capacity, stale reads, and repeated pages of streams.
//
//	SDK client ──▶ Transport ───────────────────────────────────▶ next RoundTripper
//	                  │                                           (engine in process, or
//	                  ├── decide: the match function, then the     any endpoint)
//	                  │           seeded chances
//	                  ├── act:    wait, answer in the back end's place, drop the reply,
//	                  │           repeat a page of a stream, or
//	                  ├── deliver ─▶ partitions ─▶ past ─▶ send
//	                  │              throttle      stale    count units
//	                  └── count:  calls, faults, units, load of partitions
//
// # Terms
//
//   - fault: an event that the layer injects into a request. The zero Fault injects
//     nothing.
//   - before apply, after apply: a fault strikes before apply if the back end never
//     sees the request. It strikes after apply if the back end has executed the
//     request and the caller does not learn the result. A test knows the difference;
//     the caller must not be able to tell.
//   - partition: a range of hashes of the partition keys of a table or index. It
//     serves a number of units per second.
//   - throttle: the refusal of a request by a partition.
//   - heat: a period in which a partition throttles.
//   - injection: the key under which struck faults are counted.
//
// # Example: the reply of the first UpdateItem is lost
//
//	first := true
//	faults := fault.New(fault.Options{Next: engine.HTTPClient(), Now: clock.Now})
//	faults.Match(func(op string, _ []byte) fault.Fault {
//		if op == "UpdateItem" && first {
//			first = false
//			return fault.Fault{Kind: fault.ReplyLost}
//		}
//		return fault.Fault{}
//	})
//	client := dynamodb.NewFromConfig(engine.Config(faults, "us-east-1"))
//
// # Example: a bad day at DynamoDB, reproducible
//
//	faults := fault.New(fault.Options{
//		Next: engine.HTTPClient(), Now: clock.Now, Sleep: clock.Sleep, Seed: 7,
//		Latency:    fault.LogNormal(4*time.Millisecond, 30*time.Millisecond),
//		Partitions: &fault.Partitions{SplitAfter: time.Minute},
//		Stale:      fault.Stale{UpTo: 500 * time.Millisecond},
//		Chances: []fault.Chance{
//			{Probability: .001, Fault: fault.Fault{Kind: fault.ReplyLost, Err: syscall.ECONNRESET}},
//			{Probability: .05, Operations: []string{"GetRecords"}, Fault: fault.Fault{Kind: fault.PageAgain}},
//		},
//	})
//
// # Partitions
//
// The cost of a request is known only from its reply. The layer asks for
// ConsumedCapacity by index, and returns to the caller the part that the caller
// asked for. Before it sends a request, it reserves the cost of the last request of
// the same shape (operation, table, expressions), or the minimum cost. If a partition
// lacks these units, the layer throttles the request, and the back end does not see
// it. A partition of an index also throttles writes to its table. If the request
// costs more than the reserved units, the rest becomes debt, and the partition passes
// nothing until the debt is paid. So in any time T a partition passes at most its
// rate times (T + 1 s + Burst), plus the debt of unforeseen requests.
//
//   - A failed condition costs the table its units, and the indexes nothing.
//   - The cost of a server failure is unknown: the reserved units stay spent.
//   - Tables on demand throttle with ThrottlingException, provisioned tables with
//     ProvisionedThroughputExceededException, and transactions with a cancellation
//     code for each action. Batches return the throttled items as unprocessed, and
//     are throttled if all items are.
//   - A scan takes evenly from all partitions, and needs all of them.
//   - The key of an index is taken from the request. If a write does not name it,
//     the key of the item is used instead, as if index keys were spread as well.
//   - A split halves the range of hashes; both halves take over the tokens or the
//     debt.
//   - The model has no limits per table or account, and no warm-up of new tables.
//
// # Stale reads
//
// For each read that may be stale, the layer draws a moment within the window. In
// the reply, it undoes the writes that passed through this transport since that
// moment: whole rows, in their order, each row once over all pages. A page with old
// rows may be longer or shorter than its Limit.
//
// The layer does not undo writes that bypassed it (so give all clients the same
// Transport), and expiry. Never stale are reads that do not return the table's key,
// reads that only count, and batches of reads. To know the old items, the layer reads
// each item before it is written, and it serializes the writes of an item.
//
// # Streams
//
// Within a stream shard, records keep DynamoDB's order. But a page may be repeated
// (PageAgain), a page may begin with the last records of the page before
// (PageOverlaps), and a shard may fall behind others (ShardHeld), which reorders
// records of different shards. No record is ever lost.
//
// # Limits
//
// Partitions and stale reads send additional requests or change requests, so they
// need a back end that does not check signatures: the engine, or another local back
// end. All other faults work with any back end. With the same seed, clock and
// sequence of requests, the same faults strike; concurrent requests meet them in the
// order of arrival.
package fault
