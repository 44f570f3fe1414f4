package process

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// The heap's goal is never more than the promised room above what lives, nor, of
// a large heap, more than half of it.
func TestGCPercent(t *testing.T) {
	for live, want := range map[uint64]int{
		0: gcMost, 1 << 20: gcMost, 16 << 20: 1600, 64 << 20: 400, 128 << 20: 200, 256 << 20: 100,
		512 << 20: gcLeast, 1 << 40: gcLeast,
	} {
		require.Equal(t, want, gcPercentFor(live), "%d bytes", live)
	}
}
