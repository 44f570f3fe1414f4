// Package live tells an admission node which stored configuration has changed.
//
//	change feed (NATS JetStream)
//	  │ event, heartbeat
//	  ▼
//	tail ──▶ [Sink] ──▶ [Invalidations] ◀── check before each use ── bucket
//	  ▲ a new tail after a gap, a silence or a reconnection
//	[Follower]
//
// The package calls nothing above it: a [Follower] reports to the [Sink] that it is given,
// and buckets ask the [Invalidations].
//
// # Words
//
//   - A place is where configuration is stored: the limits of a config level, or the item
//     of an entity.
//   - An invalidation announces that a place has changed.
//   - A tail is the end of the change feed, read through a consumer of its own.
//   - A missed change is a change that the feed may not have delivered. After it, buckets
//     doubt all their settings.
//
// # Example
//
// An operator sets the limits of resource gpt-4. The feed delivers the event, and the sink
// records the place {namespace, "", "gpt-4"}. A bucket of entity acme on gpt-4 compares the
// number of invalidations with the number at its last check. The numbers differ, so it
// checks its places, finds its settings [Outdated], and reads them again. A bucket on
// another resource finds its settings [Fresh].
package live
