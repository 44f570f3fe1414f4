// Package shards changes into how many shards a bucket is divided, and sees a
// bucket as the whole of them.
//
//	want 4:   Double ──▶ want and shard 0 ──▶ then the others, one by one
//
//	          0 (4)                     a shard's number, and its level
//	         ╱     ╲
//	     2 (4)      1 (2)               3 is wanted, and not split off 1 yet
//
// # Words
//
//   - A tree is all the shards of a bucket. What BatchGetItem brings is no
//     snapshot: a set that is no whole tree is read again.
//   - Wanted is the number of shards that a bucket shall have. Shard 0 says it.
//     A split is refused where its child is not wanted, a merge where it is, so
//     that those who split and those who merge do not undo each other's work.
//   - To double is to want twice as many and to split shard 0, in one step; two who
//     double the same count make one step. To spread is to split the others.
//   - To gather is to spend from several shards in one transaction.
//
// Every step is one transaction under a pinned token, repeated until its outcome
// is known. What a planner knew may be old: a step holds for every state that its
// ranges let in, and keeps the sum of what is drawn, whatever is spent meanwhile.
//
// # Example
//
//	store := shards.NewStore(client, "tidegate", clock.Now, nonce)
//	tree, err := store.Double(ctx, key, 1) // 1 → 2
//	tree, err = store.Double(ctx, key, 2)  // 2 → 4, all four are there
//	tree, err = store.Shrink(ctx, key, 1)  // and one again
package shards
