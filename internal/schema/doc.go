// Package schema says whether a table and this release fit each other.
//
// # Words
//
//   - A schema is a version of the data model: of keys, items and attributes.
//     [table.SchemaVersion] is the one that this release reads and writes.
//   - A version record says which schema the table is written in, and one in
//     each namespace which schema that is written in, as namespaces may be
//     brought to a new schema one after another.
//   - A verdict is what comes of comparing a record with the release.
//
// What may be found, and what it means:
//
//	record 1, release 1   compatible
//	record 1, release 2   needs migration   the items are of an older release
//	record 2, release 1   too new           this release could misread the items
//	no record             unmarked          of a release before the record; schema 1
//
// # Example
//
//	report, err := schema.Check(ctx, client, "tidegate")
//	// report.Compatible() = true, report.Table.Schema = 1, report.Namespaces = 12
package schema
