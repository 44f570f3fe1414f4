// Package namespace knows which namespaces exist: it gives the opaque id that
// stands in every key for the name that stands in every subject. Operators make,
// delete, recover and purge namespaces through it.
//
// # Words
//
//   - The registry is the part of the table that belongs to no tenant. Each
//     namespace has a forward item (its name gives its id, and what became of it)
//     and a reverse item (its id gives its name), made in one transaction.
//   - A name is what users type, [a-z0-9][a-z0-9-]{0,62}. An id is 11 random
//     characters, so that a name used again later is another namespace.
//   - A deleted namespace is refused and kept whole. A purge removes what it
//     holds, a step per request, and its entries last.
//
// # Who asks
//
//	request ──▶ Cache.Cached ── known ──▶ id, no I/O, no waiting
//	                │ not known, or older than 60 s, or changed
//	                ▼
//	            Cache.Lookup ── one read, shared by all who wait ──▶ Registry.Lookup ──▶ table
//
// While the table cannot be reached, a namespace that was known stays known:
//
//	id, err := cache.Lookup(ctx, "default")
//
// # A namespace's life
//
//	          Create            Delete             Purge (first step)
//	(nothing) ──────▶ active ──────────▶ deleted ────────────▶ purging
//	    ▲                ▲    Recover       │                     │
//	    │                └──────────────────┘                     │
//	    └─────────────────────────────────────────────────────────┘
//	                     Purge (last step): the name is free
//
// Each arrow is one transaction with an audit event in the registry, and tells
// all nodes. A purge is as far as what GSI4 still lists; the index follows the
// table, so that it must show nothing twice, a second apart. What a node that knew the id
// writes after that belongs to nobody: the id is never used again.
package namespace
