// Package table is what Tidegate keeps in DynamoDB: the definition of the
// table, the codec between items and structs, and every form of write. It is
// the only package that spells attribute names.
//
// # Words
//
//   - An item is one DynamoDB item; a bucket item is one shard of a bucket.
//   - A form is one kind of write (commit, create, sync, …). Each is built in
//     one place and its expression is pinned by a golden file in testdata.
//   - Drawn is the refill count of a limit that is already spent or overflowed;
//     the balance follows from it and the clock (package bucket).
//   - The nonce is the mark a writer leaves in the item: who wrote last.
//
// # One rule
//
// Every write commutes. It adds, or it sets under a range, and its condition
// names ranges instead of versions, so that any number of nodes write one item
// without losing races to each other:
//
//	UPDATE   ADD drawn 500, consumed 500, admitted 1 SET nonce
//	IF       shard count = 1 AND fingerprint = "k3J9x1QaZ0c"
//	         AND drawn BETWEEN 58_999_900 AND 59_099_500
//
// Names and values reach DynamoDB only as positional aliases (#n0, :v0),
// because a limit may be called ttl or req-min. A comparison never stands
// under NOT: on a missing attribute that would be true.
package table
