// Package bucket is the arithmetic of token buckets: pure functions of integers,
// without clock, I/O or locks. Amounts are millitokens, times are milliseconds
// since 2025-01-01T00:00:00Z ([Instant]), and every division rounds down, also
// below zero, so that all nodes that compute the same thing get the same number.
//
// # The idea
//
// A balance is never stored. It is computed from two counts that only grow:
//
//	refilled   millitokens refilled since instant 0, a function of the clock alone
//	drawn      millitokens spent or overflowed, the only stored number
//
//	balance = min(capacity, refilled − drawn)
//
// Refilling a bucket needs no write, reading it loses no fraction, and spends of
// several writers add up in any order.
//
//	millitokens
//	    ▲                        · refilled ·
//	    │                   · ·╱            ╲· available now
//	    │              · ·   ┌─────────────
//	    │         · ·        │  ← a spend lifts drawn
//	    │    · ·  ┌──────────┘ drawn
//	    │· ·      │             · refilled − capacity ·
//	    │─────────┘        · ·
//	    └──────────────────────────────────▶ time
//
// If drawn is below refilled − capacity, the bucket is full and the refill above
// its capacity has overflowed. The next spend first sets drawn to that line, which
// counts the overflow as drawn, and then adds its cost. If drawn is above
// refilled, the bucket is in debt.
//
// # Glossary
//
//   - capacity: the most that a bucket holds, its burst.
//   - refill: the amount it regains per period; [Limit.Refilled] counts it from
//     instant 0.
//   - drawn: the part of that count that is spent or has overflowed.
//   - window: a limit of a shard at a given moment ([Window]), with the two numbers
//     that a drawn count is compared with.
//   - idle: full and overflowing; the next spend sets drawn. Otherwise busy: the
//     next spend adds to drawn.
//   - change: the effect of a write on a drawn count, and the range of counts for
//     which it is correct ([Change]). The range is the write's condition, so that
//     a writer with an outdated count does no harm.
//   - tally: several operations on the same count, composed into a single change
//     ([Tally]).
//   - shard: a part of a bucket that is divided into Count equal parts ([Shard]).
//   - share: a shard's part of an amount: floor((amount + Index) / Count). The
//     shares of all shards sum to the amount exactly (Hermite's identity).
//   - split level: a shard's Count, a power of two. A split doubles it, and each
//     shard splits at its own moment.
//   - pool: a limit over all the shards of a bucket ([Pool]). Its answers are
//     correct only if it lists all shards, each at its level. It holds the sum of
//     their balances: the debt of a shard counts against the others.
//
// A bucket of four shards, with the parent of each shard above it:
//
//	level 1          0
//	               ╱   ╲
//	level 2      0       1
//	            ╱ ╲     ╱ ╲
//	level 4    0   2   1   3
//
// # Worked example
//
// A limit of 10 tokens that regains 5 per second is asked for 4 tokens at instant
// 60,000, by a bucket full and unused since instant 0 (drawn = −10,000):
//
//	refilled = 60,000 × 5,000 / 1,000       = 300,000
//	full     = 300,000 − 10,000             = 290,000   drawn is below: idle
//	spend    : drawn = 290,000 + 4,000      = 294,000   if drawn ≤ 289,999
//	balance  = min(10,000, 300,000 − 294,000) = 6,000
//
// For 7 tokens it lacks 1,000 millitokens then, which is 200 ms of refill: that
// is [Pool.RetryAfter].
//
// # Bounds
//
// Limits that pass [Limit.Validate] keep every count within int64 for 100 years,
// on up to [MaxShards] shards. Beyond, and for limits that would take longer than
// that to fill, counts and times saturate; they never wrap. Amounts of an
// operation are at most [MaxTokens] tokens; functions do not check that again, nor
// that a limit is valid.
package bucket
