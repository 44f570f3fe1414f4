package bucket

import (
	"math"
	"math/bits"
	"time"
)

// Instant is a moment: milliseconds since 2025-01-01T00:00:00Z.
type Instant int64

// EpochUnixMs is instant 0 in Unix milliseconds.
const EpochUnixMs int64 = 1735689600000

// At returns the instant of a time, cut to milliseconds.
func At(t time.Time) Instant { return Instant(t.UnixMilli() - EpochUnixMs) }

// Time returns the instant as a time, in UTC.
func (i Instant) Time() time.Time { return time.UnixMilli(int64(i) + EpochUnixMs).UTC() }

// Milli is the number of millitokens in a token.
const Milli int64 = 1000

// Bounds within which every drawn count fits int64 for 100 years.
const (
	MaxTokens int64 = 1 << 40                     // of a capacity, an amount or a cost
	MaxRate   int64 = 2_000_000                   // tokens per second
	MaxPeriod int64 = 10 * 365 * 24 * 3600 * 1000 // milliseconds
	MaxDebt   int64 = 1 << 50                     // millitokens of debt; also how far below a full bucket's a count can be
	MaxLimits       = 16                          // per bucket
	MaxShards       = 32                          // per bucket
)

// Limit holds the settings of a token bucket, undivided over its shards.
type Limit struct {
	Name     string
	Capacity int64 // millitokens: the most it holds, its burst
	Refill   int64 // millitokens it regains per period
	Period   int64 // milliseconds
}

// LimitError names the setting of a limit that is out of bounds.
type LimitError struct {
	Field  string // capacity, refill_amount, refill_period_seconds or rate
	Reason string
}

// Error implements error.
func (e *LimitError) Error() string { return e.Field + " " + e.Reason }

// Validate checks the bounds; the error is a *LimitError.
func (l Limit) Validate() error {
	switch {
	case l.Capacity <= 0 || l.Capacity > MaxTokens*Milli:
		return &LimitError{"capacity", "must be above 0 and at most 2^40 tokens"}
	case l.Refill <= 0 || l.Refill > MaxTokens*Milli:
		return &LimitError{"refill_amount", "must be above 0 and at most 2^40 tokens"}
	case l.Period <= 0 || l.Period > MaxPeriod:
		return &LimitError{"refill_period_seconds", "must be above 0 and at most 10 years"}
	case above(l.Refill, 1, l.Period, MaxRate):
		return &LimitError{"rate", "must be at most 2,000,000 tokens per second"}
	}
	return nil
}

// above reports a×b > c×d; millitokens per millisecond are tokens per second.
func above(a, b, c, d int64) bool {
	ah, al := bits.Mul64(uint64(a), uint64(b))
	ch, cl := bits.Mul64(uint64(c), uint64(d))
	return ah > ch || (ah == ch && al > cl)
}

// Refilled returns R(t) = floor(t × Refill / Period): the millitokens refilled from
// instant 0 to t if no refill ever overflowed. It saturates instead of wrapping.
func (l Limit) Refilled(t Instant) int64 {
	if t >= 0 {
		q, _ := mulDiv(uint64(t), uint64(l.Refill), uint64(l.Period))
		return q
	}
	q, r := mulDiv(uint64(-t), uint64(l.Refill), uint64(l.Period))
	if r > 0 {
		q++
	}
	return -q
}

// saturated is the value at which refill counts and times stop growing. It is above
// the refill of 100 years at the highest rate (6.4 × 10^18), and 2^61 below the end
// of int64, so that capacities, costs and the debts of all shards (2^56 at most) can
// be added without overflow.
const saturated = math.MaxInt64 - 1<<61

// mulDiv returns a×b/c with its remainder, saturating instead of wrapping.
func mulDiv(a, b, c uint64) (quotient int64, remainder uint64) {
	hi, lo := bits.Mul64(a, b)
	if hi >= c {
		return saturated, 0
	}
	q, r := bits.Div64(hi, lo, c)
	if q >= saturated {
		return saturated, 0
	}
	return int64(q), r
}

// FillTime returns how many milliseconds the limit takes from empty to full, rounded up.
func (l Limit) FillTime() int64 { return ceilMulDiv(l.Capacity, l.Period, l.Refill) }

// ceilMulDiv returns ⌈a×b/c⌉ for positive b and c and a ≥ 0.
func ceilMulDiv(a, b, c int64) int64 {
	q, r := mulDiv(uint64(a), uint64(b), uint64(c))
	if r > 0 {
		q++
	}
	return q
}

// reached returns the least instant at which Refilled is at least count.
func (l Limit) reached(count int64) Instant {
	if count > 0 {
		return Instant(ceilMulDiv(count, l.Period, l.Refill))
	}
	q, _ := mulDiv(uint64(-count), uint64(l.Period), uint64(l.Refill))
	return Instant(-q)
}

// Floor converts millitokens to whole tokens, rounded down, also below zero.
func Floor(milli int64) int64 { return floorDiv(milli, Milli) }

func floorDiv(a, b int64) int64 {
	q := a / b
	if a%b < 0 {
		q--
	}
	return q
}
