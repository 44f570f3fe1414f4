// Package aggregator sums up what was used: it follows the change feed's bucket
// events and keeps usage snapshots, to the token, however often a record is
// delivered and whichever process dies.
//
// # Words
//
//   - A snapshot is one item: what an entity used of a resource in one window,
//     such as an hour. The window is that of the event's time, in UTC.
//   - An entry is what one record adds to one snapshot; an account is all that a
//     batch adds to one, in order.
//   - A watermark is the position of the last record of a bucket shard that a
//     snapshot counts. Each snapshot has one for each shard.
//   - A mark names a record that comes again from the dead letters.
//
// # The picture
//
//	batch of a lane ──▶ accounts (pure) ──▶ one UpdateItem each, side by side ──▶ snapshots
//	  shard 0  +5 tpm  10:59                 alice gpt-4 hourly 10:00   ADD tpm 5   hw_0 = …17
//	  shard 0  +2 tpm  11:00                 alice gpt-4 hourly 11:00   ADD tpm 9   hw_0 = …21, hw_1 = …19
//	  shard 1  +7 tpm  11:00                 alice gpt-4 daily          ADD tpm 14  hw_0 = …21, hw_1 = …19
//
// # Why each record counts once
//
// A write adds what records first…last of a shard tell only where the watermark
// is below first, and moves it to last. Records of a shard come in order, so that
// a watermark at x says: all up to x, and nothing behind. A write that is refused
// is answered with the snapshot; what is at or below the watermarks is left out,
// and the rest written. A write whose answer was lost is simply written again: if
// it was applied, that is how the second one learns it.
//
// A record from the dead letters comes behind others of its shard. It moves no
// watermark; its mark is added to a set on the snapshot, and refuses it the second
// time. The set is bounded ([table.MaxReplays]).
//
// A record that one of its snapshots has no room for becomes a dead letter, and is
// counted by the others. Its mark is added to those, so that they refuse its replay.
//
// What can be decoded is never put among the dead letters: its lane waits, and
// tidegate_feed_lanes_waiting says so. The one exception is a record that a
// snapshot has no room for.
//
// # Namespaces that are purged
//
// A batch may come when its namespace is purged. After its writes and before it is
// acknowledged, the counter reads whether the namespaces of new snapshots still exist,
// and deletes the snapshots of those that do not (see [config.PurgedNamespaces]).
//
//	a, err := aggregator.New(aggregator.Config{NATS: nc, DynamoDB: cfg, Table: "tidegate", Member: name, …})
//	err = a.Run(ctx) // until ctx ends and the batches under way are done
package aggregator
