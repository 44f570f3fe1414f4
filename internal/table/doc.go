// Package table defines the stored data: the definition of the DynamoDB table, the
// codec between items and structs, and every form of write. It is the only package
// that spells attribute names. The calls are in package store.
//
// # Glossary
//
//   - An item is a DynamoDB item; a bucket item is a shard of a bucket.
//   - A form is a kind of write (commit, create, sync, …). Each form is built in a
//     single function, and a golden file in testdata pins its expression.
//   - Drawn is the refill count of a limit that is already spent or overflowed;
//     the balance follows from it and the clock (package bucket).
//   - The nonce in an item identifies its last write.
//
// # Writes commute
//
// Every write adds, or it sets under a range, and its condition names ranges
// instead of versions. Any number of nodes can write the same item without losing
// races to each other:
//
//	UPDATE   ADD drawn 500, consumed 500, admitted 1 SET nonce
//	IF       shard count = 1 AND fingerprint = "k3J9x1QaZ0c"
//	         AND drawn BETWEEN 58_999_900 AND 59_099_500
//
// Names and values reach DynamoDB only as positional aliases (#n0, :v0), because a
// limit may be called ttl or req-min. A comparison never stands under NOT: on a
// missing attribute that would be true.
package table
