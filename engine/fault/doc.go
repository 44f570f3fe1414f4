// Package fault stands between a DynamoDB client and its back end and makes
// things go wrong on purpose: slow answers, throttles, failures, replies that
// are lost although the write was done, partitions that have only so much
// capacity, reads of the past, pages of streams that come again.
//
//	SDK client ──▶ Transport ───────────────────────────────────▶ next RoundTripper
//	                  │                                           (engine in process, or
//	                  ├── decide: the match function, else the     any endpoint)
//	                  │           seeded chances, else nothing
//	                  ├── act:    wait, answer in the back end's place, drop the reply,
//	                  │           repeat a page of a stream, or
//	                  ├── deliver ─▶ partitions ─▶ past ─▶ send
//	                  │              throttle      stale    count units
//	                  └── count:  calls, faults, units, load of partitions
//
// Words:
//
//   - A Fault is what happens to one request. The zero Fault is none.
//   - A fault strikes before apply when the back end never sees the request,
//     after apply when it carried the request out and the caller does not
//     learn of it. Only a test knows which; the caller must not be able to tell.
//   - A partition is a range of hashes of the partition keys of one table or
//     index, and serves a number of units per second. A throttle is its refusal.
//   - Heat is a time in which a partition throttles.
//   - An injection is a fault that struck, as counts tell them apart.
//
// Example: the reply of the first UpdateItem is lost.
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
// Example: a bad day at DynamoDB, the same each time.
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
// What a request costs is known only from its reply, which the layer makes tell
// it: it asks for ConsumedCapacity by index, and leaves in the reply what the
// caller asked for. Before, it sets aside what the last request of that shape
// (operation, table, expressions) cost, or the least one can cost. If a partition
// has not so much, the request is throttled and the back end does not see it;
// an index's partition throttles writes of its table. What turns out to be more
// becomes debt, and nothing passes until it is paid. So in any time T a
// partition passes at most its rate times (T + 1 s + Burst), beside the debt made
// by requests that nobody foresaw.
//
//   - Failed conditions cost the table what they cost, and the indexes nothing.
//   - What a server's failure cost is unknown: what was set aside stays spent.
//   - Tables on demand throttle with ThrottlingException, provisioned ones with
//     ProvisionedThroughputExceededException; transactions with a cancellation
//     code for each action. Batches give back the items that were throttled, and
//     are throttled if those are all.
//   - A scan takes evenly from all partitions, and needs all of them.
//   - An index's key is taken from the request. Where a write does not name it,
//     the item's own key stands in for it, as if index keys were spread as well.
//   - A split halves the range of hashes; the halves take over tokens or debt.
//   - There are no limits per table or account, and no warming up of new tables.
//
// # The past
//
// For each read that may be stale a moment of the window is drawn, and the writes
// that passed through this transport since then are undone in what it shows:
// whole rows, in their order, once each over all pages. A page that shows old rows
// may be longer than its Limit, or shorter. Not undone are writes that took
// another way (give all clients one Transport), and expiry; reads that do not show
// the table's key, and mere counts, are never stale; nor are batches of reads.
// To know what items were, the layer reads each before it is written, and writes
// of one item go one by one.
//
// # Streams
//
// Within a stream shard the order is DynamoDB's; but a page may come again
// (PageAgain), the next may begin with the last records of the one before
// (PageOverlaps), and a shard may fall behind others (ShardHeld), which is how
// records of different shards change order. No record is ever lost.
//
// # Limits
//
// Partitions and stale reads make requests of the layer's own, or change what is
// sent, and so need a back end that does not check signatures: the engine, and
// other local ones. All else works before any back end. With the same seed, clock
// and sequence of requests, the same faults strike; concurrent requests meet
// them in order of arrival.
package fault
