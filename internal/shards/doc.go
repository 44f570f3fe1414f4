// Package shards changes the number of shards of a bucket, and treats all shards of
// a bucket as a whole.
//
//	want 4:   Double ──▶ want and shard 0 ──▶ then the other shards in turn
//
//	          0 (4)                     a shard's number, and its split level
//	         ╱     ╲
//	     2 (4)      1 (2)               3 is wanted, and not yet split off 1
//
// # Glossary
//
//   - A tree is all shards of a bucket. BatchGetItem reads no consistent
//     snapshot: a set of shards that is not a whole tree is read again.
//   - Wanted is the number of shards that a bucket should have. Shard 0 stores it.
//     A split is refused if its child is not wanted, a merge if the merged shard
//     is wanted. Splitters and mergers therefore do not undo each other's work.
//   - To double is to double the wanted number and to split shard 0 in the same
//     step. Two callers that double the same count make a single step. To spread
//     is to split the other shards.
//   - A multi-shard spend takes tokens from several shards in a transaction.
//
// Every step is a transaction under a fixed token, repeated until its outcome is
// known. The state that a planner knew may be old: a step is valid for every state
// within its ranges, and keeps the sum of the drawn tokens, including spends in the
// meantime.
//
// # Example
//
//	store := shards.NewStore(client, "tidegate", clock.Now, nonce)
//	tree, err := store.Double(ctx, key, 1) // 1 → 2
//	tree, err = store.Double(ctx, key, 2)  // 2 → 4, all four exist
//	tree, err = store.Shrink(ctx, key, 1)  // back to a single shard
package shards
