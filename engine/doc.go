// Package engine is an embedded, durable, DynamoDB-compatible store. It serves a
// single-process installation without AWS, fast tests, and the injection of faults
// (package fault). In production, the store is DynamoDB.
//
//	*dynamodb.Client ── InProcess ─┐
//	                               ├─▶ answer ─▶ decode ─▶ compile ─▶ ┌ plan ─▶ commit ┐ ─▶ encode
//	HTTP on loopback ── ServeHTTP ─┘   protocol  decode,    expressions │ items    commit │   encode
//	                                   .go       requests   against a   └──── mu held ────┘
//	                                             .go        table             │
//	                                                                          ▼
//	                                                Commit to Options.OnCommit, to the journal
//	                                                of a durable engine, and to the streams of
//	                                                tables with change streams
//
// # Getting started
//
// [New] returns an engine in memory. Clients of the AWS SDK in the same process use
// it without sockets:
//
//	engine := engine.New(engine.Options{Now: clock.Now})
//	cfg := engine.Config(engine.HTTPClient(), "us-east-1")
//	client, streams := dynamodb.NewFromConfig(cfg), dynamodbstreams.NewFromConfig(cfg)
//
// Other programs on the same machine use it over HTTP:
//
//	http.Serve(loopbackListener, engine)
//
// The engine does not check signatures, so it must listen on loopback only.
//
// The owner calls [Engine.Expire] from time to time to delete expired items, and
// [Engine.Register] to export metrics.
//
// # Requests
//
// The engine decodes a request and compiles its expressions without a lock. A single
// lock per engine protects tables and items. Under it, a write is planned (condition,
// new image) and committed. Only commit changes items, indexes and capacity; it also
// makes the record for change streams and the journal. Items are immutable, so replies
// are encoded after the lock is released.
//
// # Durability
//
// [Open] returns an engine that stores its tables in a directory. It writes every
// commit and every change of a table's settings to a journal, and occasionally
// replaces old logs by a snapshot of all tables. See package journal.
//
// A reply is sent only after all data it depends on is durable. A write waits for its
// own record, outside the lock; concurrent writes share an fsync. Reads and refusals
// wait for all existing records, which costs nothing while no write is under way.
//
// If the disk is full, the engine answers every request with InternalServerError and
// retries every second; after any other disk failure, it must be opened again.
// [Engine.Health] reports both failures, and [Engine.Failed] only the latter.
//
// # Change streams
//
// A change stream returns the changes of a table's items. The engine keeps no second
// copy of them: the newest Changes stay in memory, and a durable engine reads older
// Changes from its journal. A snapshot removes a log only after the streams no longer
// need it.
//
//	commit ─▶ place: chooses the shard; a full or old shard closes and gets children
//	   │
//	   ├─▶ journal:   a record: {… "rolls": […], "shards": […], "changes": […]}
//	   │
//	   └─▶ segments:  │ on disk │ on disk │ on disk │ in memory │ in memory ◀─ keep
//	                   ◀─ trim                       ◀─ evict
//	                   └──────────────── GetRecords ────────────────┘
//
// The record of a commit names the stream shards of its changes and the shards that
// it closes. So after a restart or a crash, a stream has the same shards and the same
// sequence numbers. An iterator holds its whole state in its text, so it continues
// where it was. A restart reads all logs, and fails if a log is damaged, even if only
// a stream needs it.
//
// Retention is limited by age and by bytes, in units of segments. Records in memory
// take several times their size, so an engine in memory keeps fewer of them. A durable
// engine keeps 1 GiB of logs, and in memory only the newest records, for readers that
// keep up. The cost of a stream for a write is appending a Change to a slice.
//
// # Terms
//
//   - item: a map of attribute values.
//   - image: an item at a moment.
//   - storage key: the values of a key, joined so that byte order is key order.
//   - row: a stored item. Indexes point to the table's rows.
//   - mutation: a planned write.
//   - Change: a write that changed its item.
//   - Commit: the Changes of an atomic write.
//   - bill: the capacity units of a request, by DynamoDB's rules.
//   - stream: the changes of a table between enabling and disabling its stream.
//   - label: the time that identifies a stream.
//   - sequence number: the number of a change, counted over all tables. It rises in
//     each stream shard and for each item.
//   - stream shard: the records of a range of keys in a range of sequence numbers. A
//     closed shard has a child or two. A reader that reads parents before children
//     sees the changes of each item in order.
//   - iterator: a position in a stream shard, valid for 15 minutes.
//   - retention: the time for which records are kept.
//   - trimmed: removed because of the limits of age or bytes.
//   - segment: a run of changes that is read from the disk, and trimmed, as a whole.
//   - window: the segments that are also in memory.
//
// # Limitations
//
// The engine refuses these features of DynamoDB, with an error that names them: local
// secondary indexes, PartiQL, the legacy parameters that expressions have replaced,
// backups, global tables, and stream iterators by time.
package engine
