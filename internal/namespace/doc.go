// Package namespace knows which namespaces exist: it gives the opaque id that
// stands in every key for the name that stands in every subject.
//
// # Words
//
//   - The registry is the part of the table that belongs to no tenant. Each
//     namespace has a forward item (its name gives its id) and a reverse item
//     (its id gives its name), made in one transaction.
//   - A name is what users type, [a-z0-9][a-z0-9-]{0,62}. An id is 11 random
//     characters, so that a name used again later is another namespace.
//
// # Who asks
//
//	request ──▶ Cache.Cached ── known ──▶ id, no I/O, no waiting
//	                │ not known, or older than 60 s
//	                ▼
//	            Cache.Lookup ── one read, shared by all who wait ──▶ Registry.Lookup ──▶ table
//
// While the table cannot be reached, a namespace that was known stays known:
//
//	id, err := cache.Lookup(ctx, "default")
package namespace
