// Package control is the control plane: it serves the admin verbs, and holds the stores that
// only administration needs.
//
//	tidegate.v1.<ns>.admin.limits.set ──▶ Service.Handle ──▶ config.LimitStore ──▶ table
//	                                          │
//	                                          └──▶ tidegate.config.v1.<ns>   which level changed
//
// # Words
//
//   - A verb is the end of a request's subject, such as "admin.limits.set". Its row in the
//     table of verbs names its decoder and its handler.
//   - The principal is the requester, as far as the NATS server tells; the audit event of a
//     change names it.
//   - The broadcast goes over core NATS and may get lost: nodes read their settings again
//     after a minute in any case.
//
// # Example
//
//	reply, refusal := s.Handle(ctx, control.Caller{Name: "default", ID: id}, api.VerbLimitsSet,
//		[]byte(`{"resource":"gpt-4","limits":[{"name":"rpm","capacity":100,"refill_amount":100,"refill_period_seconds":60}]}`))
//	// reply: {"resource":"gpt-4","limits":[…],"config_version":1}
//
// # Lease keys
//
// Nodes check leases with all keys they have read. A rotation makes the next key, which signs
// after every node has read it, so that every node can check every lease:
//
//	made ── next ── 2 min ──▶ signing ── until another key signs ──▶ retired
//	          │                                                         │
//	          └── nodes read the keys every minute                      └── still checks
//
// The first key of a table signs at once: there is no other key.
//
// # Capacity
//
// Capacity reports the balances of all entities that have a bucket of a resource:
//
//	GSI2, 16 partitions ──▶ entities ──▶ BatchGetItem ──▶ rows and totals
//	(keys alone)            (shard 0)    buckets, configs
//
// A row sums up the shards of an entity's bucket, and a total sums up a limit over the rows
// of a page. Shard 0 stands for the bucket in the index, so that an entity counts once. Its
// balance is read consistently and moved to the limits that apply now: a bucket that was not
// spent from since a change still carries the old limits. A row is damaged if an item of its
// entity cannot be decoded; no total counts it. An entity without a bucket is not in the
// report: it never spent from the resource, or was full until its item expired. Buckets of
// override limits are not in the report either.
//
// # Usage
//
// Usage lists the snapshots that the aggregator keeps, by entity, resource and window, and
// sums them up. Override limits have buckets and therefore snapshots of their own, which are
// listed with the snapshots of the resource.
//
// # Schema
//
// A schema is a version of the data model; [table.SchemaVersion] is the version of this
// release. The table has a version record, and so has each namespace, because namespaces may
// be migrated in turn:
//
//	record 1, release 1   compatible
//	record 1, release 2   needs migration   the items are of an older release
//	record 2, release 1   too new           this release could misread the items
//	no record             unmarked          of a release before the record; schema 1
package control
