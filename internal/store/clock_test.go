package store

import (
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/tidegate/tidegate/pkg/bucket"
)

// fakeClock is a node's clock that a test sets; its two times move together
// unless told otherwise.
type fakeClock struct{ ClockReading }

func newFakeClock() *fakeClock {
	return &fakeClock{ClockReading{Wall: time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)}}
}

func (c *fakeClock) read() ClockReading { return c.ClockReading }

func (c *fakeClock) advance(d time.Duration) {
	c.Wall, c.Mono = c.Wall.Add(d), c.Mono+d
}

// exchange is a request to a store whose clock is ahead of the node's by skew.
func (c *fakeClock) exchange(s *Clock, skew, there, back time.Duration) {
	sent := c.Mono
	c.advance(there)
	date := c.Wall.Add(skew).Truncate(time.Second)
	c.advance(back)
	s.observe(sent, c.Mono, date)
}

func TestClockNeedsABoundFirst(t *testing.T) {
	c := newFakeClock()
	s := NewClock(c.read)
	_, err := s.Now()
	require.ErrorIs(t, err, ErrClockUnchecked)
	c.exchange(s, 0, time.Millisecond, time.Millisecond)
	now, err := s.Now()
	require.NoError(t, err)
	require.Equal(t, bucket.At(c.Wall), now, "a clock that may be right is not corrected")
}

func TestClockIsCorrectedIntoTheBounds(t *testing.T) {
	c := newFakeClock()
	s := NewClock(c.read)
	const behind = 1700 * time.Millisecond // the node's clock
	for range 200 {
		c.exchange(s, behind, 2*time.Millisecond, 3*time.Millisecond)
		c.advance(37 * time.Millisecond)
	}
	now, err := s.Now()
	require.NoError(t, err)
	require.InDelta(t, int64(bucket.At(c.Wall.Add(behind))), int64(now), 45, "200 replies bound the offset to a round trip and a step")
}

func TestClockBeyondTwoSecondsStopsWrites(t *testing.T) {
	for _, skew := range []time.Duration{4 * time.Second, -4 * time.Second} {
		c := newFakeClock()
		s := NewClock(c.read)
		c.exchange(s, skew, time.Millisecond, time.Millisecond)
		_, err := s.Now()
		require.ErrorIs(t, err, ErrClockSkewed, "skew %s", skew)
	}
}

func TestSettingTheClockAsksTheStoreAgain(t *testing.T) {
	c := newFakeClock()
	s := NewClock(c.read)
	c.exchange(s, 0, time.Millisecond, time.Millisecond)
	_, err := s.Now()
	require.NoError(t, err)
	c.Wall = c.Wall.Add(time.Hour)
	_, err = s.Now()
	require.ErrorIs(t, err, ErrClockUnchecked)
	c.exchange(s, -time.Hour, time.Millisecond, time.Millisecond)
	_, err = s.Now()
	require.ErrorIs(t, err, ErrClockSkewed, "the store shows that it was set wrong")
}

func TestContradictingBoundsStartAfresh(t *testing.T) {
	c := newFakeClock()
	s := NewClock(c.read)
	c.exchange(s, 0, time.Millisecond, time.Millisecond)
	c.advance(2 * time.Second)
	c.exchange(s, 5*time.Second, time.Millisecond, time.Millisecond)
	_, err := s.Now()
	require.ErrorIs(t, err, ErrClockSkewed, "the newest bound counts")
}

func TestOldBoundsAreForgotten(t *testing.T) {
	c := newFakeClock()
	s := NewClock(c.read)
	c.exchange(s, 0, time.Millisecond, time.Millisecond)
	c.advance(maxBoundAge - time.Second)
	_, err := s.Now()
	require.NoError(t, err, "a quiet node does not ask for the time before each write")
	c.advance(2 * time.Second)
	_, err = s.Now()
	require.ErrorIs(t, err, ErrClockUnchecked)
}

// Bounds further apart than the window say nothing of each other: the clock may
// have drifted in between.
func TestNewBoundsReplaceOldOnes(t *testing.T) {
	c := newFakeClock()
	s := NewClock(c.read)
	c.exchange(s, 1500*time.Millisecond, time.Millisecond, time.Millisecond)
	require.Negative(t, s.Correction())
	c.advance(boundWindow + time.Second)
	c.exchange(s, 0, time.Millisecond, time.Millisecond)
	require.Zero(t, s.Correction())
}

// Whatever the delays, the corrected clock is within the bound of one exchange
// of the store's: less than a second and its round trip.
func TestClockProperty(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := newFakeClock()
		s := NewClock(c.read)
		skew := time.Duration(rapid.Int64Range(-1900, 1900).Draw(t, "skew ms")) * time.Millisecond
		var widest time.Duration
		for range rapid.IntRange(1, 40).Draw(t, "replies") {
			there := time.Duration(rapid.Int64Range(0, 300).Draw(t, "there ms")) * time.Millisecond
			back := time.Duration(rapid.Int64Range(0, 300).Draw(t, "back ms")) * time.Millisecond
			c.exchange(s, skew, there, back)
			widest = max(widest, there+back)
			c.advance(time.Duration(rapid.Int64Range(0, 900).Draw(t, "pause ms")) * time.Millisecond)
		}
		now, err := s.Now()
		require.NoError(t, err)
		off := now.Time().Sub(c.Wall.Add(skew)).Abs()
		require.LessOrEqual(t, off, dateResolution+widest+time.Millisecond)
		require.LessOrEqual(t, off, max(skew.Abs(), time.Millisecond), "a correction never makes the clock worse")
	})
}

type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) Do(r *http.Request) (*http.Response, error) { return f(r) }

func TestWatchReadsTheDateHeader(t *testing.T) {
	c := newFakeClock()
	s := NewClock(c.read)
	client := s.Watch(roundTrip(func(*http.Request) (*http.Response, error) {
		h := http.Header{"Date": {c.Wall.Format(http.TimeFormat)}}
		return &http.Response{Header: h, Body: io.NopCloser(strings.NewReader(""))}, nil
	}))
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://store/", http.NoBody)
	require.NoError(t, err)
	resp, err := client.Do(req)
	require.NoError(t, err)
	require.NoError(t, resp.Body.Close())
	_, err = s.Now()
	require.NoError(t, err)
}

// On a clock that stands still for a while, what is asked for later is known to be.
func TestMonotonicTimeNeverTellsTheSameTwice(t *testing.T) {
	m := newFakeClock()
	c := NewClock(m.read)
	last := c.Mono()
	for i := range 1000 {
		if i%100 == 0 {
			m.advance(time.Millisecond)
		}
		now := c.Mono()
		require.Greater(t, now, last)
		last = now
	}
	require.InDelta(t, c.read().Mono, last, float64(time.Microsecond))
}
