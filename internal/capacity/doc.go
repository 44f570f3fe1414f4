// Package capacity reports what all entities hold of a resource.
//
//	GSI2, 16 partitions ──▶ entities ──▶ BatchGetItem ──▶ rows and totals
//	(keys alone)            (shard 0)    buckets, configs
//
// # Words
//
//   - A row is what one entity holds, over all shards of its bucket.
//   - A row is damaged if an item of its entity cannot be decoded: it is named, and
//     no total counts it.
//   - A total sums up one limit over the rows of one page.
//
// An index tells who has a bucket: shard 0 stands for it, so that an entity
// counts once whatever its shards. What it holds is then read from the table,
// consistently, and moved to the limits that hold now: a bucket that nobody has
// spent from since a change still carries the limits from before.
//
// An entity without a bucket is not in the report: it never spent from the
// resource, or was full for long enough that its item expired. Buckets of
// requests that brought their own limits are not in it either.
//
// # Example
//
//	page, err := store.Page(ctx, ns, api.CapacityRequest{Resource: "gpt-4", Limit: 100})
//	// page.Totals = rpm: 2 entities, capacity 200, available 150, …
//	// page.Entities = alice: rpm 100 of 100; bob: rpm 50 of 100
package capacity
