// Package lease issues and settles leases. A lease says which tokens an admitted acquire
// spent, and where. Its holder adjusts it to the tokens that were used, or releases it.
//
//	acquire ──▶ Desk.Issue ──▶ token ──▶ caller
//	                                       │
//	adjust, release ◀──────────────────────┘
//	   │
//	   ▼
//	Desk.Open ──▶ Settlement.Run ──▶ decide ──▶ record (NATS KV) ──▶ Shards: refunds, debits ──▶ reply
//	token, keys                      pure       compare-and-set
//
// The package knows no bucket: [Shards] is its way to them.
//
// # Words
//
//   - A token is a lease with a signature. The token of the first operation says the
//     amounts that were spent; each adjust returns the token of the next operation.
//   - An operation is an adjust or the release. Operations of a lease are numbered.
//   - A record is the truth about a lease that was settled at least once: the tokens it
//     holds, its last operation, and an operation that is pending.
//   - A credit gives tokens back; a debit spends more. Credits leave the record before they
//     are written to the table, and debits enter it after they are written: a lease never
//     holds more than the table has drawn for it.
//   - An epoch ends when NATS has forgotten records: leases of earlier epochs give nothing
//     back.
//
// # Example
//
// An acquire spends 1 rpm and 500 tpm. The caller uses 400 tpm and adjusts the lease by
// −100 tpm. The record says now that the lease holds 1 rpm and 400 tpm, and that operation
// 1 is done; the next write of the bucket gives 100 tpm back. A repeat with the same token
// finds operation 1 done and is answered again. A release gives back 1 rpm and 400 tpm.
package lease
