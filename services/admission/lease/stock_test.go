package lease

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tidegate/tidegate/pkg/bucket"
)

const (
	testLife = 8 * time.Minute
	testMost = 16_000 // bytes, of which 1,000 are reserved
	testSize = 10     // bytes of a record
)

// settle stores records of a namespace until one is refused, and returns their bytes.
func settle(s *stock, namespace string, now bucket.Instant, most int) (bytes int64, err error) {
	for range most {
		if err := s.check(namespace, now); err != nil {
			return bytes, err
		}
		s.stored(namespace, testSize, false, now)
		bytes += testSize
	}
	return bytes, nil
}

// However greedy namespaces are, each gets as much as is left free for the others, and a
// namespace that comes later has room.
func TestGreedyNamespacesLeaveRoom(t *testing.T) {
	for greedy := 1; greedy <= 20; greedy++ {
		s := newStock(testLife)
		s.told(0, testMost)
		for round := 0; round < greedy; {
			round = 0
			for i := range greedy {
				if _, err := settle(s, fmt.Sprint("greedy-", i), 0, 1); err != nil {
					require.ErrorIs(t, err, errNoShare)
					round++
				}
			}
		}
		share := float64(testMost-testMost/reservedPart) / float64(greedy+1)
		for i := range greedy {
			require.InDelta(t, share, s.own[fmt.Sprint("greedy-", i)].since(0), 2*testSize, "%d greedy namespaces", greedy)
		}
		bytes, err := settle(s, "calm", 0, int(share)/2/testSize-1)
		require.NoError(t, err)
		require.InDelta(t, share/2, bytes, 3*testSize)
	}
}

// The rule refuses nothing while half of the room is free, and nothing without a maximum.
func TestAHalfEmptyStockRefusesNothing(t *testing.T) {
	s := newStock(testLife)
	_, err := settle(s, "a", 0, 2000)
	require.NoError(t, err, "no maximum is known")
	s = newStock(testLife)
	s.told(0, testMost)
	_, err = settle(s, "a", 0, (testMost-testMost/reservedPart)/2/testSize)
	require.NoError(t, err)
}

// Without room for anybody, the reason is another; a sixteenth stays reserved.
func TestAFullStock(t *testing.T) {
	s := newStock(testLife)
	s.told(testMost-testMost/reservedPart, testMost)
	require.ErrorIs(t, s.check("calm", 0), errNoRoom)
	s.told(testMost-testMost/reservedPart-1, testMost)
	require.NoError(t, s.check("calm", 0))
}

// What a namespace has stored counts for as long as records live. A record that replaces
// another counts once, from its last change.
func TestAStockForgetsWhatHasExpired(t *testing.T) {
	s := newStock(testLife)
	s.told(testMost*5/8, testMost)
	minute := func(n int) bucket.Instant { return bucket.Instant(n) * 60_000 }
	s.stored("a", 6000, false, minute(0))
	s.told(testMost*5/8, testMost)
	require.ErrorIs(t, s.check("a", minute(0)), errNoShare)
	require.ErrorIs(t, s.check("a", minute(8)), errNoShare)
	require.NoError(t, s.check("a", minute(9)))
	s.stored("a", 6000, true, minute(5))
	require.ErrorIs(t, s.check("a", minute(13)), errNoShare, "it was changed")
	require.EqualValues(t, 6000, s.own["a"].since(0), "it counts once")
	require.NoError(t, s.check("a", minute(14)))
	s.forget(minute(14))
	require.Empty(t, s.own)
	taken, _ := s.size()
	require.EqualValues(t, testMost*5/8, taken, "a replaced record takes no more room")
}

// What other nodes have stored counts, and what they say replaces what they said.
func TestAStockHearsOfOthers(t *testing.T) {
	a, b, c := newStock(testLife), newStock(testLife), newStock(testLife)
	for _, s := range []*stock{a, b} {
		s.stored("noisy", 3000, false, 0)
		s.stored("calm", 10, false, 0)
	}
	c.told(testMost*5/8, testMost)
	require.NoError(t, c.check("noisy", 0))
	for range 2 {
		var all []stocks
		for _, s := range []*stock{a, b} {
			s.notStored()
			of, changed := s.toStore()
			require.True(t, changed)
			_, changed = s.toStore()
			require.False(t, changed)
			all = append(all, of)
		}
		c.hears(all)
	}
	require.EqualValues(t, 6000, c.other["noisy"].since(0))
	require.ErrorIs(t, c.check("noisy", 0), errNoShare)
	require.NoError(t, c.check("calm", 0))
}

// A node stores the counts of the largest namespaces.
func TestAStoredStockIsBounded(t *testing.T) {
	s := newStock(testLife)
	for i := range 2 * storedNamespaces {
		s.stored(fmt.Sprint(i), int64(i+1), false, 0)
	}
	of, _ := s.toStore()
	require.Len(t, of, storedNamespaces)
	for i := storedNamespaces; i < 2*storedNamespaces; i++ {
		require.Contains(t, of, fmt.Sprint(i))
	}
}
