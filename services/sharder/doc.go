// Package sharder divides buckets before they are too hot for one partition of
// DynamoDB, and makes them whole again afterwards.
//
// # Words
//
//   - The load of a bucket is the write units that its shards cost in a second, all
//     together: those that the change feed shows, and those that admission nodes
//     report because no image shows them.
//   - Shards have room for a load while each would bear 60 % of what its partition
//     does; it is too much for them from 80 % on.
//   - Evidence is a second of load. Seconds before the last split, or about it, are
//     none: what waited because of throttles comes all at once.
//   - A step is a doubling, a spreading, or a merge (package shards).
//   - A survey looks for divided buckets that nobody writes to: they are not in the
//     feed, and a sharder that has just started does not know them.
//
// # The picture
//
//	feed ──▶ note ──┐                          ┌─▶ double ──▶ want and shard 0, then all others
//	                ├─▶ book ──▶ plan (pure) ──┼─▶ spread ──▶ what is wanted and lacks
//	load reports ───┤   what is known          └─▶ merge ───▶ sync, want, then the highest first
//	survey (GSI2) ──┘   of each bucket
//
// All shards of a bucket are in one lane of the feed, and so one sharder sees them
// all. Steps are transactions that hold whatever was spent meanwhile and that are
// done once, whoever else does them: a sharder that knows little or old things
// does nothing wrong, only nothing useful.
//
//	s, err := sharder.New(sharder.Config{NATS: nc, DynamoDB: cfg, Table: "tidegate", Member: name, …})
//	err = s.Run(ctx) // until ctx ends and the steps under way are done
package sharder
