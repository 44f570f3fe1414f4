// Package leasekey says which key signs leases, and rotates it.
//
// # Words
//
//   - A key is made, then next, then signing, then retired. Nodes check leases
//     with all keys they have read.
//   - A rotation makes the next key. It signs once every node has read it, so that
//     no node meets a lease it cannot check.
//
// # A key's life
//
//	made ── next ── 2 min ──▶ signing ── until another one signs ──▶ retired
//	          │                                                         │
//	          └── nodes read the keys every minute                      └── still checks
//
// The first key of a table signs at once: there is no other.
//
//	keys := leasekey.NewKeys(client, "tidegate", log, now)
//	next, err := keys.Rotate(ctx, by)
package leasekey
