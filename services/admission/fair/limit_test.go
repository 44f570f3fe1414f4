package fair

import (
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// simulated is a store that carries out a number of calls at a time, each in base. It is
// always asked for as many as the limit allows, up to demand.
type simulated struct {
	limit
	now     time.Duration
	servers int
	base    time.Duration
	demand  int
}

func newSimulated(servers int) *simulated {
	return &simulated{limit: limit{value: 64, min: 8, max: 512}, servers: servers, base: 5 * time.Millisecond, demand: math.MaxInt}
}

// run lets time pass, and returns the mean number of calls per second.
func (s *simulated) run(d time.Duration) float64 {
	calls, began := 0, s.now
	for s.now-began < d {
		inFlight := min(s.current(), s.demand)
		s.reached = s.reached || s.demand > s.current()
		took := max(s.base, s.base*time.Duration(inFlight)/time.Duration(s.servers))
		s.now += took
		for range inFlight {
			s.sample(s.now, "write", took)
		}
		calls += inFlight
	}
	return float64(calls) / (s.now - began).Seconds()
}

func TestTheLimitFollowsTheStore(t *testing.T) {
	for _, servers := range []int{8, 20, 100} {
		s := newSimulated(servers)
		s.run(5 * time.Second)
		rate := s.run(10 * time.Minute)
		most := float64(servers) / s.base.Seconds()
		require.Greater(t, rate, 0.95*most, "%d servers are kept busy", servers)
		require.LessOrEqual(t, s.value, 4*float64(servers), "%d servers have a short queue, for however long it lasts", servers)
	}
}

func TestTheLimitGrowsWithAStoreThatHasRoom(t *testing.T) {
	s := newSimulated(10_000)
	s.run(2 * time.Second)
	require.InDelta(t, 512, s.value, 0)
}

func TestTheLimitDoesNotGrowUnused(t *testing.T) {
	s := newSimulated(10_000)
	s.demand = 10
	s.run(time.Minute)
	require.InDelta(t, 64, s.value, 0)
}

func TestTheLimitComesBack(t *testing.T) {
	s := newSimulated(100)
	s.run(10 * time.Second)
	before := s.value
	s.base = 750 * time.Millisecond // the store hangs
	s.run(20 * time.Second)
	require.InDelta(t, 8, s.value, 0, "the smallest")
	s.base = 5 * time.Millisecond
	s.run(3 * time.Second)
	require.Greater(t, s.value, before/2)
}

// A store that is slower for good gets a new base once the old one is two epochs old.
func TestTheBaseIsLearnedAgain(t *testing.T) {
	s := newSimulated(100)
	s.run(10 * time.Second)
	s.base = 40 * time.Millisecond
	s.run(3 * lastEpoch)
	require.Greater(t, s.run(time.Minute), 0.95*100/0.04)
}

// The first calls of a node may meet a queue.
func TestANodeThatStartsUnderLoadLearnsTheBase(t *testing.T) {
	s := newSimulated(8)
	s.value = 512
	s.run(30 * time.Second)
	require.Less(t, s.value, 5*8.0)
}

// A window of slow calls costs no more than a third of the limit.
func TestAPauseCostsLittle(t *testing.T) {
	s := newSimulated(100)
	s.run(10 * time.Second)
	before := s.value
	s.sample(s.now+300*time.Millisecond, "write", 300*time.Millisecond)
	for range 50 {
		s.sample(s.now+300*time.Millisecond, "write", 300*time.Millisecond)
	}
	require.GreaterOrEqual(t, s.value, 0.69*before)
}

// Forms of calls are compared each with its own base.
func TestAnotherMixOfCallsIsNoQueue(t *testing.T) {
	s := newSimulated(10_000)
	s.run(time.Second)
	before := s.value
	for range 100 {
		s.now += 10 * time.Millisecond
		s.reached = true
		s.sample(s.now, "write", 5*time.Millisecond)
		s.sample(s.now, "transaction", 60*time.Millisecond)
		s.sample(s.now, "transaction", 60*time.Millisecond)
	}
	require.GreaterOrEqual(t, s.value, before)
}
