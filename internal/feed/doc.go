// Package feed shares the change feed among the processes of a service.
//
// # Words
//
//   - A group is all processes of a service; a member is a single process.
//   - A lane is a part of the feed that is in order ([events.Lanes]). Each lane
//     has a durable consumer per service, and a single member pulls it at a time.
//   - A record is an event as a handler gets it; a batch holds the records
//     of a single pull of a lane.
//   - A pin keeps all members but its holder from pulling a lane.
//   - Dead letters are records that no release can read, or that were refused for
//     good.
//
// # The picture
//
//	TIDEGATE_CHANGES ── lane 0 ──▶ consumer "aggregator-00" ─┐
//	                 ── lane 1 ──▶ consumer "aggregator-01" ─┤ each pulled by the member
//	                    …                                    │ with the highest hash for it
//	                                                         ▼
//	                  member A: a batch of a lane at a time ────▶ Watermill's Router ──▶ handler
//	                  member B: …                                        │
//	                                                                     └─ refused ─▶ tidegate.dlq.v1.aggregator
//
// # Guarantees to a handler
//
// The records of a lane come in order, and the next batch comes when the handler
// has returned nil for the previous batch. A handler that fails is given the same
// batch again, after a pause: nothing behind it passes. Every record is handled at
// least once; it may be handled again after a crash, and for a moment by two
// members at once when the pin of a member that hangs has run out. So every effect
// must be conditional on a watermark.
//
// A member that leaves, or that was not heard of for [Tuning].MemberTTL, loses its
// lanes to the others; a member that joins takes its share.
//
//	g, err := feed.New(feed.Config{Service: "aggregator", Handle: apply, …})
//	err = g.Run(ctx) // until ctx ends and the batches under way are done
package feed
