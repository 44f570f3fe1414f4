// Package events is what the change feed carries: the changes of the table's
// items, as events on NATS subjects, for every service that follows the table.
//
// # Words
//
//   - A change event tells of one change of one item: its images before and after.
//
//   - The kind of an event is the kind of item it tells of. Each kind has a
//     subject and a version of its own.
//
//   - A lane is one of a fixed number of parts of a kind. Events of one bucket,
//     whatever the shard, are in one lane, and so are those of one entity; a
//     lane is in order.
//
//   - A position is where in the table's stream an event comes from: the label of
//     the stream and the sequence number in it. Positions of one item sort by time,
//     as text too, and name the event.
//
//   - A checkpoint is the marker that ends each batch of events: up to where a
//     stream shard is in the feed.
//
//   - Dead letters are events that a service cannot read, or that were refused
//     for good.
//
//   - A load report is no event: an admission node tells every second, to whoever
//     listens, what buckets were asked for and the table does not show.
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
// [Decode] sorts what can go wrong by what is to be done about it: an event of
// an unknown kind is skipped ([ErrUnknownKind]); an unknown version of a known
// kind waits for the release that knows it ([ErrUnknownVersion]); anything else
// is a dead letter ([ErrMalformed]). Fields that are not known are ignored.
//
//	e, err := events.Decode(data)
//	for name, k := range events.Consumed(e.Bucket) {
//		total[name] += k // millitokens, net
//	}
package events
