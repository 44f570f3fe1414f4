package duty

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

const stuck = "the store does not answer"

func TestANodeLeavesOnceItsReportIsHeard(t *testing.T) {
	var s state
	s = s.step(10*time.Second, stuck, true)
	require.False(t, s.away, "the others may rely on this node yet")
	require.False(t, s.able())
	s = s.step(10*time.Second+heardTime-1, stuck, true)
	require.False(t, s.away)
	require.False(t, s.step(10*time.Second+heardTime, stuck, false).away, "no other node is able")
	require.False(t, s.step(10*time.Second+heardTime, "", true).away, "it makes progress again")
	s = s.step(10*time.Second+heardTime, stuck, true)
	require.True(t, s.away)
}

func TestANodeComesBack(t *testing.T) {
	gone := state{away: true, cause: stuck, changed: time.Second, since: 5 * time.Second, steady: minSteady}
	require.True(t, gone.step(time.Hour, stuck, true).away, "it is stuck")
	require.False(t, gone.step(6*time.Second, stuck, false).away, "no other node is able")
	s := gone.step(6*time.Second, "", true)
	require.True(t, s.away)
	require.True(t, s.step(6*time.Second+minSteady-1, "", true).away)
	s = s.step(6*time.Second+minSteady, "", true)
	require.False(t, s.away)
	require.True(t, s.able())
}

func TestANodeThatLeavesAgainStaysAwayLonger(t *testing.T) {
	s, now := state{}, time.Hour
	leave := func() {
		s = s.step(now, stuck, true)
		now += heardTime
		s = s.step(now, stuck, true)
		require.True(t, s.away)
	}
	comeBack := func() {
		s = s.step(now, "", true)
		now += s.steady
		s = s.step(now, "", true)
		require.False(t, s.away)
	}
	for want := minSteady; want <= 4*minSteady; want *= 2 {
		leave()
		require.Equal(t, want, s.steady)
		comeBack()
	}
	for range 10 {
		leave()
		comeBack()
	}
	require.Equal(t, maxSteady, s.steady)
	now += relapseTime + 1
	leave()
	require.Equal(t, minSteady, s.steady)
}

// Whatever makes nodes stuck, and however their ticks fall, a node is on duty at any time.
func TestANodeIsAlwaysOnDuty(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		type node struct {
			name  string
			state state
			peers *peers
			phase time.Duration
			stuck bool
		}
		now := time.Hour
		var nodes []*node
		for i := range rapid.IntRange(1, 4).Draw(t, "nodes") {
			nodes = append(nodes, &node{
				name: string(rune('a' + i)), peers: &peers{node: string(rune('a' + i)), now: func() time.Duration { return now }, able: map[string]time.Duration{}},
				phase: time.Duration(rapid.IntRange(0, 9).Draw(t, "phase")) * defaultTick / 10,
			})
		}
		tell := func(n *node) {
			data, err := json.Marshal(report{n.name, n.state.able()})
			require.NoError(t, err)
			for _, other := range nodes {
				other.peers.hear(data)
			}
		}
		for range rapid.IntRange(1, 60).Draw(t, "spans") {
			for _, n := range nodes {
				n.stuck = rapid.Bool().Draw(t, "stuck")
			}
			for range rapid.IntRange(1, 60).Draw(t, "steps") { // of a tenth of a tick
				now += defaultTick / 10
				for _, n := range nodes {
					if (now-n.phase)%defaultTick != 0 {
						continue
					}
					cause := ""
					if n.stuck {
						cause = stuck
					}
					n.state = n.state.step(now, cause, n.peers.anyAble())
					tell(n)
				}
				onDuty := false
				for _, n := range nodes {
					onDuty = onDuty || !n.state.away
				}
				require.True(t, onDuty, "no node takes requests")
			}
		}
	})
}

func TestPeers(t *testing.T) {
	now := time.Hour
	p := &peers{node: "me", now: func() time.Duration { return now }, able: map[string]time.Duration{}}
	for _, of := range []string{`{"node":"me","able":true}`, `{"able":true}`, `-`, `{"node":"b","able":false}`} {
		p.hear([]byte(of))
		require.False(t, p.anyAble(), of)
	}
	p.hear([]byte(`{"node":"b","able":true}`))
	require.True(t, p.anyAble())
	now += heardTime
	require.True(t, p.anyAble())
	now++
	require.False(t, p.anyAble(), "it is silent")
	p.hear([]byte(`{"node":"b","able":true}`))
	p.hear([]byte(`{"node":"b"}`))
	require.False(t, p.anyAble())
}

func TestTheScheduler(t *testing.T) {
	s := &scheduler{tick: time.Second}
	now := time.Hour
	tick := func(late time.Duration) {
		now += s.tick + late
		s.note(now)
	}
	tick(0)
	tick(time.Minute)
	require.Zero(t, s.stalled(now), "a single pause is over")
	tick(2 * time.Second)
	tick(500 * time.Millisecond)
	require.Equal(t, 2500*time.Millisecond, s.stalled(now))
	tick(time.Second)
	require.Greater(t, s.stalled(now), schedulerPatience)
	for range 9 {
		tick(-time.Millisecond)
	}
	require.Zero(t, s.stalled(now), "it was long ago")
}
