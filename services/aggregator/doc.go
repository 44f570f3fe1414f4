// Package aggregator sums up usage: it follows the change feed's bucket
// events and keeps usage snapshots, to the token, however often a record is
// delivered and whichever process dies.
//
// # Words
//
//   - A snapshot is an item: the usage of a resource by an entity in a window,
//     such as an hour. The window is that of the event's time, in UTC.
//   - An entry is the addition of a record to a snapshot; an account holds all entries
//     of a batch for the same snapshot, in order.
//   - A watermark is the position of the last record of a bucket shard that a
//     snapshot counts. Each snapshot has a watermark for each shard.
//   - A mark names a record that comes again from the dead letters.
//
// # The picture
//
//	batch of a lane ──▶ accounts (pure) ──▶ an UpdateItem each, side by side ──▶ snapshots
//	  shard 0  +5 tpm  10:59                 alice gpt-4 hourly 10:00   ADD tpm 5   hw_0 = …17
//	  shard 0  +2 tpm  11:00                 alice gpt-4 hourly 11:00   ADD tpm 9   hw_0 = …21, hw_1 = …19
//	  shard 1  +7 tpm  11:00                 alice gpt-4 daily          ADD tpm 14  hw_0 = …21, hw_1 = …19
//
// # Why each record counts once
//
// A write adds the usage of records first…last of a shard only if the watermark
// is below first, and moves it to last. Records of a shard come in order, so that
// a watermark at x says: all up to x, and nothing behind. A write that is refused
// is answered with the snapshot; records at or below the watermarks are left out,
// and the rest written. A write with a lost answer is simply written again: if
// it was applied, the snapshot in the second answer shows it.
//
// A record from the dead letters comes behind others of its shard. It moves no
// watermark; its mark is added to a set on the snapshot, and refuses it the second
// time. The set is bounded ([table.MaxReplays]).
//
// A record that does not fit in a snapshot becomes a dead letter, and is
// counted by its other snapshots. Its mark is added to these, so that they refuse its replay.
//
// A record that can be decoded is never put among the dead letters: its lane waits, and
// tidegate_feed_lanes_waiting says so. The only exception is a record that a
// snapshot has no room for.
//
// # Namespaces that are purged
//
// A batch may come when its namespace is purged. After its writes and before it is
// acknowledged, the counter reads whether the version records of new snapshots' namespaces still exist,
// and deletes the snapshots of missing namespaces (see [config.PurgedNamespaces]).
//
//	a, err := aggregator.New(aggregator.Config{NATS: nc, DynamoDB: cfg, Table: "tidegate", Member: name, …})
//	err = a.Run(ctx) // until ctx ends and the batches under way are done
package aggregator
