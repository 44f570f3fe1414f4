// Package archive stores audit events that have left the table, as objects in a
// folder or an S3 bucket, for as long as the operator keeps the folder or bucket.
//
// # Words
//
//   - An object is a file of events of the same namespace, day (UTC) and lane of the
//     change feed: JSON lines, the newest first, compressed with gzip. Its name bounds
//     the events in it, so that readers skip irrelevant objects.
//   - A deletion records when an event left the table, and whether DynamoDB deleted it by
//     its ttl or another writer deleted it.
//   - The marker is an object that identifies the archive. Writing and reading the
//     marker proves, before any event depends on it, that both work.
//
// # Names
//
//	audit/{namespace id}/{yyyy}/{mm}/{dd}/{lane}-{first}-{last}.jsonl.gz
//	audit/AAAAAAAAAAA/2026/03/01/17-1041-1390.jsonl.gz
//
// first and last are the lowest and the highest sequence in the object. A writer that
// stores the same events again computes the same name, and leaves the existing
// object. If different events already have the name, because a redelivered batch was
// cut at other borders, the writer appends a hash of the content to the name. So
// objects are never overwritten, and an event may be in two objects; readers drop the
// repeat.
//
// # Reading
//
// Page returns the newest events behind a position, whatever the number of objects,
// and keeps no more than the page and a few objects in memory:
//
//	days, newest first ──▶ names of the day, by last ──▶ objects in sequence ──▶ the n newest
//	                         left out: other lanes,        a line at a time
//	                         other sequences
//
//	a, err := archive.Open(ctx, "s3://acme-audit/tidegate?region=eu-central-1", archive.Options{AWS: load})
//	page, err := a.Page(ctx, audit.ArchiveQuery{Namespace: ns, Events: 100, Bytes: 600 << 10})
package archive
