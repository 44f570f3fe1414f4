// Package archive keeps audit events that have left the table, as objects in a
// folder or an S3 bucket, for as long as somebody keeps those.
//
// # Words
//
//   - An object is a file of events, of one namespace, day (UTC) and lane of the
//     change feed: JSON lines, the newest first, compressed with gzip. Its name says
//     which events it may hold, so that readers leave out what they do not look for.
//   - A deletion says when an event left the table, and whether its ttl or somebody
//     took it out.
//   - The marker is an object that says that an archive is here. Writing and reading
//     it shows, before any event depends on it, that both work.
//
// # Names
//
//	audit/{namespace id}/{yyyy}/{mm}/{dd}/{lane}-{first}-{last}.jsonl.gz
//	audit/AAAAAAAAAAA/2026/03/01/17-1041-1390.jsonl.gz
//
// first and last are the lowest and the highest sequence in the object. Whoever
// writes the same events again writes the same name, and leaves what is there. Where
// other events have the name, which takes a batch given again with other borders, the
// name gets a part more, a hash of the content. So nothing is ever overwritten, and
// an event may be in two objects; readers drop the repeat.
//
// # Reading
//
// Page gives the newest events behind a position, whatever the number of objects,
// and keeps no more than the page and a few objects in memory:
//
//	days, newest first ──▶ names of the day, by last ──▶ one object after another ──▶ the n newest
//	                         left out: other lanes,          a line at a time
//	                         other sequences
//
//	a, err := archive.Open(ctx, "s3://acme-audit/tidegate?region=eu-central-1", archive.Options{AWS: load})
//	page, err := a.Page(ctx, audit.ArchiveQuery{Namespace: ns, Events: 100, Bytes: 600 << 10})
package archive
