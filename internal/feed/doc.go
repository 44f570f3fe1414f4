// Package feed shares the change feed among the processes of a service.
//
// # Words
//
//   - A group is all processes of one service; a member is one of them.
//   - A lane is a part of the feed that is in order ([events.Lanes]). Each lane
//     has one durable consumer per service, and one member pulls it at a time.
//   - A record is one event as a handler gets it; a batch is what one pull of a
//     lane brought.
//   - A pin is how the server keeps all but one member from pulling a lane.
//   - Dead letters are records that no release can read, or that were refused for
//     good.
//
// # The picture
//
//	TIDEGATE_CHANGES ── lane 0 ──▶ consumer "aggregator-00" ─┐
//	                 ── lane 1 ──▶ consumer "aggregator-01" ─┤ each pulled by the member
//	                    …                                    │ whose hash for it is highest
//	                                                         ▼
//	                  member A: one batch of a lane at a time ──▶ Watermill's Router ──▶ handler
//	                  member B: …                                        │
//	                                                                     └─ refused ─▶ tidegate.dlq.v1.aggregator
//
// # What a handler can rely on
//
// The records of a lane come in order, and the next batch comes when the handler
// has returned nil for the one before. A handler that fails is given the same
// batch again, after a pause: nothing behind it passes. Every record is handled at
// least once; it may be handled again after a crash, and for a moment by two
// members at once when the pin of a member that hangs has run out. So every effect
// must be conditional on a watermark.
//
// A member that leaves, or that was not heard of for [Tuning].MemberTTL, loses its
// lanes to the others; one that joins takes its share.
//
//	g, err := feed.New(feed.Config{Service: "aggregator", Handle: apply, …})
//	err = g.Run(ctx) // until ctx ends and the batches under way are done
package feed
