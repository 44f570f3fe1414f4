package jitter_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tidegate/tidegate/internal/jitter"
)

func TestNumbersAreBelowTheirBound(t *testing.T) {
	seen := map[time.Duration]bool{}
	for range 1000 {
		d := jitter.N(8 * time.Nanosecond)
		require.GreaterOrEqual(t, d, time.Duration(0))
		require.Less(t, d, 8*time.Nanosecond)
		seen[d] = true
	}
	require.Len(t, seen, 8)
}

func TestTheSourceIsReplaced(t *testing.T) {
	restore := jitter.Replace(func() uint64 { return 1<<63 + 5 })
	defer restore()
	require.Equal(t, int64((1<<63+5)%10), jitter.N(int64(10)))
	require.Panics(t, func() { jitter.N(0) })
	restore()
	seen := map[int]bool{}
	for range 100 {
		seen[jitter.N(1000)] = true
	}
	require.Greater(t, len(seen), 10)
}
