// Package keys turns what Tidegate stores into DynamoDB keys and back: one
// typed value per kind of item, its PK and SK, and the keys under which the
// four indexes list it.
//
// # Words
//
//   - A namespace is one tenant. Its id is opaque, 11 characters, made once by
//     [NewNamespaceID]; its name lives only in the registry.
//   - The registry is the namespace "_": which namespaces exist, and the keys
//     that sign leases.
//   - A part is a piece of a key that comes from outside (an entity, a
//     resource, a lease key id). '#' separates parts, so no part contains it.
//   - Spread is the number of index partitions over which GSI2 and GSI4 lay
//     what would otherwise meet on one.
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
// GSI1 lists the children of a parent. All indexes project keys only, so a row
// of any of them is read with [Parse] of its table keys.
//
// # Contract
//
// For every value whose Valid is true, Parse(x.Key()) gives x again, and no two
// valid values have the same key. [Parse] refuses every key that no valid value
// has. What users may type is narrower (package api checks it at the edge);
// this package only guarantees that names never run into each other.
package keys
