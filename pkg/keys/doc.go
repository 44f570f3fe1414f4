// Package keys converts Tidegate's stored items to DynamoDB keys and back: a
// typed value per kind of item, its PK and SK, and its keys in the four indexes.
//
// # Words
//
//   - A namespace is a tenant. Its id is opaque, 11 characters, and generated at
//     creation by [NewNamespaceID]; its name is stored only in the registry.
//   - The registry is the namespace "_". It holds the list of namespaces and the
//     keys that sign leases.
//   - A part is a piece of a key that comes from outside (an entity, a
//     resource, a lease key id). '#' separates parts. In the place of a '#' or a '~' of an
//     entity or a resource, keys hold a control character.
//   - Spread is the number of index partitions over which GSI2 and GSI4
//     distribute items that would otherwise share a single partition.
//
// # Where an item is
//
//	Bucket{Namespace: "AAAAAAAAAAA", Entity: "alice", Resource: "gpt-4", Shard: 0}
//
//	table   AAAAAAAAAAA/BUCKET#alice#gpt-4#0     #STATE
//	GSI2    AAAAAAAAAAA/RESOURCE#gpt-4#7         BUCKET#alice#0              capacity of a resource
//	GSI3    AAAAAAAAAAA/ENTITY#alice             BUCKET#gpt-4#0              buckets of an entity
//	GSI4    AAAAAAAAAAA#2                        BUCKET#alice#gpt-4#0        everything in a namespace
//
// GSI1 lists the children of a parent. All indexes project keys only, so
// [Parse] decodes any index row from its table keys.
//
// # Contract
//
// For every value whose Valid is true, Parse(x.Key()) returns x again, and no two
// valid values have the same key. [Parse] refuses every key that no valid value
// has. The names that users may enter are narrower (package api checks them at the
// edge); this package only guarantees that different names never share a key.
package keys
