// Package relay brings the changes of the table from DynamoDB's stream into the
// change feed: each once, and the changes of an item in order.
//
// # Words
//
//   - A stream shard is a part of the table's stream that is in order. It is closed
//     after some hours and followed by its children.
//   - A stream holds the changes from the time that streaming was enabled on the table
//     until the next such time; its label is that time.
//   - A page holds the records of a single read of a stream shard.
//   - A marker is the message in the feed that says up to where a stream shard is in
//     it; its number there is the fence of the next marker.
//   - A relay is a process of this service; it has a reader for each of its stream
//     shards.
//
// # The picture
//
//	shard 1 ─(closed)─▶ shard 2 ──GetRecords──▶ reader ───an atomic batch──▶ TIDEGATE_CHANGES
//	               └──▶ shard 3                   │                            event, event, …,
//	                                              │                            marker of shard 2
//	        a record that no event can be made of └──▶ tidegate.dlq.v1.relay
//
// # Why nothing is lost or doubled
//
// A page and the marker that ends it succeed or fail together, and the server
// refuses a marker unless the previous marker is still the last:
//
//	relay A: page 100–199, marker 199 if the last is number 41 ── applied, number 142
//	relay B: page 100–199, marker 199 if the last is number 41 ── refused: it reads the marker, and goes on behind 199
//
// So several relays may read the same stream shard, a batch with a lost answer needs
// no guess, and there is no second store that could disagree with the feed. That
// relays share the stream shards among them saves reads; nothing rests on it.
//
// A stream shard is read when its parent was read to its end, and all of the
// streams before: an item's changes move from a parent to a child.
//
//	r, err := relay.New(relay.Config{NATS: nc, DynamoDB: cfg, Table: "tidegate", Member: name, …})
//	err = r.Run(ctx) // until ctx ends and the records that were read are published
package relay
