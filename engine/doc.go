// Package engine is a DynamoDB-compatible engine in this process: the
// store of a one-command start, the ground of fast tests, and the place where
// faults come from. It is not the product: in production the store is DynamoDB.
//
//	*dynamodb.Client ── InProcess ─┐
//	                               ├─▶ answer ─▶ decode ─▶ compile ─▶ ┌ plan ─▶ commit ┐ ─▶ encode
//	HTTP on loopback ── ServeHTTP ─┘   protocol  decode,    expressions │ items    commit │   encode
//	                                   .go       requests   against a   └──── mu held ────┘
//	                                             .go        table             │
//	                                                                          ▼
//	                                                Commit to Options.OnCommit, to the journal
//	                                                of an engine made with Open, and to the
//	                                                streams of tables that have one
//
// A request is decoded and its expressions are compiled without a lock. Under
// the engine's one lock a write is planned (condition, new image) and
// committed: commit is the only place where items, indexes and capacity change,
// and it makes the record that change streams and durability consume. Items are
// never changed in place, so a reply is encoded after the lock is gone.
//
// An engine made with New is in memory only. One made with Open keeps every
// commit and every change of a table's settings in a journal, and now and then a
// snapshot of it all. No reply leaves before what it tells of is durable: writes
// wait for their own record, outside of the lock and sharing one fsync; reads and
// refusals for all records there are, which costs nothing when nobody writes.
//
// # Streams
//
// A table's change stream shows what commits have changed. It is no second copy:
// the newest Changes stay in memory, and an engine on disk reads older ones back
// from its journal, whose logs a snapshot removes only when no stream shows them.
//
//	commit ─▶ place: in which shard? one that is full or old closes and has children
//	   │
//	   ├─▶ journal:   one record: {… "rolls": […], "shards": […], "changes": […]}
//	   │
//	   └─▶ segments:  │ on disk │ on disk │ on disk │ in memory │ in memory ◀─ keep
//	                   ◀─ trim                       ◀─ evict
//	                   └──────────────── GetRecords ────────────────┘
//
// The record of a commit says which stream shards its changes are in and which it
// closes, so after a restart or a crash a stream has the same shards and the same
// sequence numbers, and an iterator, which is all in its text, goes on where it
// was. A restart reads all logs: a damaged one is refused, though only a stream
// needed it.
//
// Retention is by age and by bytes, in bunches (segments). Records in memory take
// several times their size, which is why an engine in memory keeps few of them;
// one on disk keeps 1 GiB of log, and in memory only what followers need. A write
// pays for its stream what it takes to append a Change to a slice.
//
// Words:
//
//   - item: a map of attribute values; image: an item at one moment.
//   - storage key: the key's values joined so that byte order is key order.
//   - row: a stored item. Indexes point at the table's rows.
//   - mutation: a planned write; Change: one that did change something;
//     Commit: the Changes of one atomic write.
//   - bill: the capacity units of one request, by DynamoDB's rules.
//   - stream: what a table's changes were between two times of being switched on;
//     label: the moment that names it.
//   - sequence number: counts the changes of all tables; rises in each stream
//     shard and for each item.
//   - stream shard: the records of a range of keys from one sequence number to
//     another. A closed one has one child or two: who reads parents before
//     children sees each item's changes in order.
//   - iterator: a place in a stream shard, good for 15 minutes.
//   - retention: how long records stay; trimmed: no longer there.
//   - segment: a run of changes that is read from the disk, and trimmed, at once;
//     window: the segments that are in memory as well.
//
// Example:
//
//	engine := engine.New(engine.Options{Now: clock.Now})
//	cfg := engine.Config(engine.HTTPClient(), "us-east-1")
//	client, streams := dynamodb.NewFromConfig(cfg), dynamodbstreams.NewFromConfig(cfg)
//
// and to share it with other programs on this machine:
//
//	http.Serve(loopbackListener, engine)
//
// Left out, and refused by name: local secondary indexes, PartiQL, the legacy
// parameters that expressions replaced, backups, global tables,
// stream iterators by time.
package engine
