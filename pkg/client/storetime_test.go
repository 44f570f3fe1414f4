package tidegate

import (
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/tidegate/tidegate/pkg/api"
)

// handClock is a machine's clock that a test moves.
type handClock struct{ moment }

func newHandClock() (*handClock, *storeTime) {
	c := &handClock{moment{wall: time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)}}
	return c, newStoreTime(func() moment { return c.moment })
}

func (c *handClock) advance(d time.Duration) { c.wall, c.mono = c.wall.Add(d), c.mono+d }

// exchange is a request to a node whose clock is ahead of this machine's.
func (c *handClock) exchange(s *storeTime, ahead, there, back time.Duration) {
	sent := c.mono
	c.advance(there)
	told := c.wall.Add(ahead).Truncate(time.Millisecond)
	c.advance(back)
	s.learn(sent, nats.Header{api.HeaderTime: {api.FormatTime(told)}})
}

// early returns by how much the deadline is before the true one of a node; late ones
// are negative.
func (c *handClock) early(t require.TestingT, s *storeTime, ahead time.Duration) time.Duration {
	at, known := s.deadline(time.Second)
	require.True(t, known)
	return c.wall.Add(ahead + time.Second).Sub(at)
}

func (s *storeTime) knows() bool {
	_, known := s.deadline(0)
	return known
}

func TestTheStoresTimeIsKnownFromTheFirstReply(t *testing.T) {
	c, s := newHandClock()
	require.False(t, s.knows())
	s.learn(0, nil)
	s.learn(0, nats.Header{api.HeaderTime: {"soon"}})
	require.False(t, s.knows(), "nodes of before the header tell none")
	c.exchange(s, time.Hour, 3*time.Millisecond, 5*time.Millisecond)
	require.InDelta(t, -3*time.Millisecond, c.early(t, s, time.Hour), float64(timeUnit))
	c.exchange(s, time.Hour, time.Second, time.Second)
	require.InDelta(t, -3*time.Millisecond, c.early(t, s, time.Hour), float64(2*timeUnit), "a slow reply takes nothing away")
	c.exchange(s, time.Hour, 0, 0)
	require.InDelta(t, 0, c.early(t, s, time.Hour), float64(timeUnit), "the fastest reply counts")
	c.advance(timeAge + 1)
	require.False(t, s.knows())
}

// A deadline is never too early for the node whose clock is ahead, and late by the
// fastest round trip, the drift and the nodes' difference at most.
func TestDeadlinesErrToTheCallersBenefit(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c, s := newHandClock()
		ahead := time.Duration(rapid.Int64Range(-1e6, 1e6).Draw(t, "ahead µs")) * time.Microsecond
		fastest := time.Duration(1 << 62)
		for range rapid.IntRange(1, 40).Draw(t, "replies") {
			there := time.Duration(rapid.Int64Range(0, 300_000).Draw(t, "there µs")) * time.Microsecond
			back := time.Duration(rapid.Int64Range(0, 300_000).Draw(t, "back µs")) * time.Microsecond
			c.exchange(s, ahead, there, back)
			fastest = min(fastest, there+back)
			c.advance(time.Duration(rapid.Int64Range(0, 3000).Draw(t, "pause ms")) * time.Millisecond)
		}
		early := c.early(t, s, ahead)
		require.LessOrEqual(t, early, time.Duration(0))
		require.LessOrEqual(t, -early, fastest+timeUnit+40*4*time.Second/driftPart)
	})
}

// Of nodes whose clocks differ the one ahead counts, until it has been silent.
func TestTheNodeThatIsAheadCounts(t *testing.T) {
	c, s := newHandClock()
	const behind, ahead = 0, 200 * time.Millisecond
	for range 5 {
		c.exchange(s, behind, time.Millisecond, time.Millisecond)
		c.exchange(s, ahead, time.Millisecond, time.Millisecond)
		c.exchange(s, behind, time.Millisecond, time.Millisecond)
		require.LessOrEqual(t, c.early(t, s, ahead), time.Duration(0))
	}
	c.advance(aheadFor)
	c.exchange(s, behind, time.Millisecond, time.Millisecond)
	require.Greater(t, c.early(t, s, ahead), ahead/2, "it has gone, or was corrected")
}

// After the machine slept, and after its clock was set, the bounds say nothing.
func TestASleepForgetsTheStoresTime(t *testing.T) {
	for name, jump := range map[string]time.Duration{"slept": time.Hour, "set back": -time.Hour} {
		t.Run(name, func(t *testing.T) {
			c, s := newHandClock()
			c.exchange(s, 0, time.Millisecond, time.Millisecond)
			sent := c.mono
			told := nats.Header{api.HeaderTime: {api.FormatTime(c.wall)}}
			c.wall = c.wall.Add(jump)
			require.False(t, s.knows())
			s.learn(sent-1, told)
			require.False(t, s.knows(), "that reply was on its way meanwhile")
			c.exchange(s, -jump, time.Millisecond, time.Millisecond)
			require.InDelta(t, 0, c.early(t, s, -jump), float64(3*time.Millisecond))
		})
	}
}
