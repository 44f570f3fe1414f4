// Package archiver keeps audit events for good: it follows the change feed, and an event that
// leaves the table, by its ttl or by hand, becomes an object of the archive.
//
// # Words
//
//   - A batch holds the records of a lane: so many records, or the records of so
//     long a time.
//   - A bundle holds the events of a batch of the same namespace and day: an object, or
//     several where the events are large.
//
// # The picture
//
//	batch of a lane ──▶ bundles (pure) ──▶ objects, side by side ──▶ acknowledged
//	  deleted  A #17 2026-03-01             audit/A/2026/03/01/9-17-18.jsonl.gz
//	  made     A #90                        audit/B/2026/03/01/9-5-5.jsonl.gz
//	  deleted  B #5  2026-03-01
//	  deleted  A #18 2026-03-01
//
// # Why each event is read once
//
// A batch is acknowledged when all its objects are durable, and not before: until
// then it comes again, to whichever archiver lives. The same events make the same
// objects, and an object that is there is left as it is. A batch that comes again
// with other borders makes other objects, in which an event may be for the second
// time; readers drop repeated events. The archive's own documentation says how.
//
// A store that fails is waited for. The lane stands, nothing passes, and the feed
// keeps the later records (tidegate_feed_lanes_waiting, tidegate_feed_oldest_seconds).
//
//	a, err := archiver.New(archiver.Config{NATS: nc, Archive: archive, Member: name, …})
//	err = a.Run(ctx) // until ctx ends and the batches under way are stored
package archiver
