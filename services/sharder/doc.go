// Package sharder divides buckets before they are too hot for a partition of
// DynamoDB, and makes them whole again afterwards.
//
// # Words
//
//   - The load of a bucket is the write units that its shards cost in a second, all
//     together: the units that the change feed shows, and the units that admission nodes
//     report because no image shows them.
//   - Shards have room for a load while each would bear 60 % of its partition's
//     capacity; it is too much for them from 80 % on.
//   - Evidence is a second of load. Seconds before the last split, or about it, are
//     no evidence: requests that waited because of throttles come all at once.
//   - A step is a doubling, a spreading, or a merge (package shards).
//   - A survey looks for divided buckets without writes: they are not in the
//     feed, and a sharder that has just started does not know them.
//
// # The picture
//
//	feed ──▶ note ──┐                          ┌─▶ double ──▶ want and shard 0, then all others
//	                ├─▶ tracker ▶ plan (pure) ─┼─▶ spread ──▶ the wanted shards that are missing
//	load reports ───┤   the state              └─▶ merge ───▶ sync, want, then the highest first
//	survey (GSI2) ──┘   of each bucket
//
// All shards of a bucket are in the same lane of the feed, and so a single sharder sees them
// all. Steps are transactions that hold whatever was spent meanwhile and that are
// done once, even if another sharder does them too: a sharder that knows little or old things
// does nothing wrong, only nothing useful.
//
//	s, err := sharder.New(sharder.Config{NATS: nc, DynamoDB: cfg, Table: "tidegate", Member: name, …})
//	err = s.Run(ctx) // until ctx ends and the steps under way are done
package sharder
