// Package events defines the content of the change feed: the changes of the table's
// items, as events on NATS subjects, for every service that follows the table.
//
// # Words
//
//   - A change event describes a single change of an item by its images before and
//     after.
//
//   - The kind of an event is the kind of the changed item. Each kind has its own
//     subject and version.
//
//   - A lane is an ordered part of a kind; the number of lanes is fixed. All events of
//     a bucket, from all its shards, share a lane, and so do all events of an entity.
//
//   - A position is an event's place in the table's stream: the label of the stream
//     and the sequence number in it. Positions of the same item sort by time, as
//     text too, and identify the event.
//
//   - A checkpoint ends each batch of events. It marks how far the feed has read a
//     stream shard.
//
//   - Dead letters are events that a service cannot read, or that were refused
//     for good.
//
//   - A load report is not an event: every second, an admission node broadcasts the
//     load on its buckets that the table does not show.
//
// # The picture
//
//	DynamoDB stream                      TIDEGATE_CHANGES (JetStream)
//	 stream shard ──▶ relay ──▶ tidegate.changes.v1.bucket.17   {"v":1,"kind":"bucket",…}
//	                            tidegate.changes.v1.config.3    {"v":1,"kind":"config",…}
//	                            tidegate.checkpoint.v1.<stream shard>
//	                                        │
//	                 a service's consumer, lane by lane ──▶ tidegate.dlq.v1.<service>
//
// # Reading events
//
// The error of [Decode] tells the consumer how to react. It skips an event of an
// unknown kind ([ErrUnknownKind]). An unknown version of a known kind waits for a
// newer release ([ErrUnknownVersion]). Any other failure makes the event a dead
// letter ([ErrMalformed]). Decode ignores unknown fields.
//
//	e, err := events.Decode(data)
//	for name, k := range events.Consumed(e.Bucket) {
//		total[name] += k // millitokens, net
//	}
package events
