// Package localdynamo is a DynamoDB-compatible engine in this process: the
// store of a one-command start, the ground of fast tests, and the place where
// faults come from. It is not the product: in production the store is DynamoDB.
//
//	*dynamodb.Client ── InProcess ─┐
//	                               ├─▶ answer ─▶ decode ─▶ compile ─▶ ┌ plan ─▶ commit ┐ ─▶ encode
//	HTTP on loopback ── ServeHTTP ─┘   protocol  decode,    expressions │ items    commit │   encode
//	                                   .go       requests   against a   └──── mu held ────┘
//	                                             .go        table             │
//	                                                                          ▼
//	                                                Commit to Options.OnCommit, and to the journal
//	                                                of an engine made with Open
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
// Words:
//
//   - item: a map of attribute values; image: an item at one moment.
//   - storage key: the key's values joined so that byte order is key order.
//   - row: a stored item. Indexes point at the table's rows.
//   - mutation: a planned write; Change: one that did change something;
//     Commit: the Changes of one atomic write.
//   - bill: the capacity units of one request, by DynamoDB's rules.
//
// Example:
//
//	engine := localdynamo.New(localdynamo.Options{Now: clock.Now})
//	client := dynamodb.NewFromConfig(localdynamo.Config(engine.HTTPClient(), "us-east-1"))
//
// and to share it with other programs on this machine:
//
//	http.Serve(loopbackListener, engine)
//
// Left out, and refused by name: local secondary indexes, PartiQL, the legacy
// parameters that expressions replaced, parallel scans, backups, global tables.
package localdynamo
