package bucket_test

import (
	"math"
	"math/big"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/tidegate/tidegate/pkg/bucket"
)

func TestValidate(t *testing.T) {
	const most = bucket.MaxTokens * bucket.Milli
	ok := bucket.Limit{Name: "rpm", Capacity: 100_000, Refill: 100_000, Period: 60_000}
	with := func(change func(*bucket.Limit)) bucket.Limit {
		l := ok
		change(&l)
		return l
	}
	tests := []struct {
		name  string
		limit bucket.Limit
		field string // "" is valid
	}{
		{"ordinary", ok, ""},
		{"least of all", bucket.Limit{Capacity: 1, Refill: 1, Period: 1}, ""},
		{"capacity 0", with(func(l *bucket.Limit) { l.Capacity = 0 }), "capacity"},
		{"capacity below 0", with(func(l *bucket.Limit) { l.Capacity = -1 }), "capacity"},
		{"capacity at its bound", with(func(l *bucket.Limit) { l.Capacity = most }), ""},
		{"capacity beyond", with(func(l *bucket.Limit) { l.Capacity = most + 1 }), "capacity"},
		{"refill 0", with(func(l *bucket.Limit) { l.Refill = 0 }), "refill_amount"},
		{"refill below 0", with(func(l *bucket.Limit) { l.Refill = math.MinInt64 }), "refill_amount"},
		{"refill at its bound", with(func(l *bucket.Limit) { l.Refill, l.Period = most, bucket.MaxPeriod }), ""},
		{"refill beyond", with(func(l *bucket.Limit) { l.Refill, l.Period = most+1, bucket.MaxPeriod }), "refill_amount"},
		{"period 0", with(func(l *bucket.Limit) { l.Period = 0 }), "refill_period_seconds"},
		{"period below 0", with(func(l *bucket.Limit) { l.Period = -60_000 }), "refill_period_seconds"},
		{"period at its bound", with(func(l *bucket.Limit) { l.Period = bucket.MaxPeriod }), ""},
		{"period beyond", with(func(l *bucket.Limit) { l.Period = bucket.MaxPeriod + 1 }), "refill_period_seconds"},
		{"rate at its bound", with(func(l *bucket.Limit) { l.Refill, l.Period = 2_000_000_000, 1000 }), ""},
		{"rate beyond", with(func(l *bucket.Limit) { l.Refill, l.Period = 2_000_000_001, 1000 }), "rate"},
		{"rate far beyond", with(func(l *bucket.Limit) { l.Refill, l.Period = most, 1 }), "rate"},
		{"the first fault is named", bucket.Limit{}, "capacity"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			err := tt.limit.Validate()
			if tt.field == "" {
				require.NoError(t, err)
				return
			}
			var limitErr *bucket.LimitError
			require.ErrorAs(t, err, &limitErr, "%v", err)
			require.Equal(t, tt.field, limitErr.Field)
			require.Equal(t, tt.field+" "+limitErr.Reason, err.Error())
		})
	}
}

func TestInstant(t *testing.T) {
	epoch := time.Date(2025, 1, 1, 0, 0, 0, 0, time.UTC)
	require.Equal(t, bucket.EpochUnixMs, epoch.UnixMilli())
	require.Zero(t, bucket.At(epoch))
	require.EqualValues(t, 1, bucket.At(epoch.Add(1_999_999*time.Nanosecond)))
	require.EqualValues(t, -1, bucket.At(epoch.Add(-time.Millisecond)))
	require.Equal(t, epoch.Add(1500*time.Millisecond), bucket.Instant(1500).Time())
}

func TestFloor(t *testing.T) {
	for milli, want := range map[int64]int64{0: 0, 999: 0, 1000: 1, -1: -1, -1000: -1, -1001: -2} {
		require.Equal(t, want, bucket.Floor(milli), "%d millitokens", milli)
	}
}

func TestFillTimeIsTheLeastFromEmptyToFull(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		l := smallLimit().Draw(t, "limit")
		fill := bucket.Instant(l.FillTime())
		require.GreaterOrEqual(t, l.Refilled(fill), l.Capacity)
		require.Less(t, l.Refilled(fill-1), l.Capacity)
	})
}

// TestCenturyFits checks the promise behind the bounds of Validate: the refill
// count of any allowed limit is exact for 100 years.
func TestCenturyFits(t *testing.T) {
	fastest := bucket.Limit{Name: "fastest", Capacity: 1, Refill: bucket.MaxRate, Period: 1}
	require.NoError(t, fastest.Validate())
	require.Equal(t, bucket.MaxRate*int64(century), fastest.Refilled(century))

	rapid.Check(t, func(t *rapid.T) {
		l := anyLimit().Draw(t, "limit")
		require.NoError(t, l.Validate())
		at := rapid.OneOf(rapid.Just(century), rapid.Just(-century),
			rapid.Map(rapid.Int64Range(-int64(century), int64(century)), func(i int64) bucket.Instant { return bucket.Instant(i) }),
		).Draw(t, "at")
		require.Equal(t, exactFloor(exactRefill(l, at)).String(), big.NewInt(l.Refilled(at)).String())
	})
}

// FuzzLimit checks Validate's bounds, and Refilled of what it allows at any
// moment of int64, against unbounded arithmetic.
func FuzzLimit(f *testing.F) {
	const most = bucket.MaxTokens * bucket.Milli
	f.Add(int64(100_000), int64(100_000), int64(60_000), int64(1000))
	f.Add(most, int64(1), bucket.MaxPeriod, int64(century))
	f.Add(int64(1), bucket.MaxRate, int64(1), int64(-century))
	f.Add(most, most, bucket.MaxPeriod, int64(math.MaxInt64))
	f.Add(int64(1), int64(2_000_001), int64(1), int64(math.MinInt64))
	f.Add(int64(0), int64(-1), int64(0), int64(0))
	f.Fuzz(func(t *testing.T, capacity, refill, period, at int64) {
		l := bucket.Limit{Name: "f", Capacity: capacity, Refill: refill, Period: period}
		err := l.Validate()
		inBounds := capacity >= 1 && capacity <= most && refill >= 1 && refill <= most &&
			period >= 1 && period <= bucket.MaxPeriod &&
			big.NewRat(refill, period).Cmp(big.NewRat(bucket.MaxRate, 1)) <= 0
		require.Equal(t, inBounds, err == nil, "%+v: %v", l, err)
		if err != nil {
			return
		}
		got, want := l.Refilled(bucket.Instant(at)), exactFloor(exactRefill(l, bucket.Instant(at)))
		if new(big.Int).Abs(want).Cmp(big.NewInt(bucket.MaxRate*int64(century))) <= 0 {
			require.Equal(t, want.String(), big.NewInt(got).String())
			return
		}
		// Beyond a century at the highest rate it may saturate, on the right side.
		require.Positive(t, new(big.Int).Abs(big.NewInt(got)).Cmp(big.NewInt(bucket.MaxRate*int64(century)-1)))
		require.Equal(t, want.Sign() > 0, got > 0)
		require.LessOrEqual(t, new(big.Int).Abs(big.NewInt(got)).Cmp(new(big.Int).Abs(want)), 0)
	})
}
