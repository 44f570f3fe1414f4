package admission

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tidegate/tidegate/pkg/api"
)

// ratedWorld has a bucket of so many shards that holds capacity tokens and refills
// rate per second, on a manual time.
func ratedWorld(t *testing.T, capacity, rate int64, count int) (*world, *manual) {
	t.Helper()
	w, m := newManualWorld(t)
	w.setLimits(t, api.LimitsTarget{Resource: "gpt-4"}, api.Limit{Name: "rpm", Capacity: capacity, RefillAmount: rate, RefillPeriodSeconds: 1})
	n := w.node(t, Tuning{})
	require.True(t, admits(t, n.spend(w, "e", 0)))
	require.NoError(t, n.stop())
	w.divide(t, "e", count)
	return w, m
}

func TestDemandOfFourTimesTheLimitIsAdmittedWithinOnePercentOfIt(t *testing.T) {
	const capacity, rate, seconds = 20, 40, 20
	w, m := ratedWorld(t, capacity, rate, 4)
	nodes := []*node{w.node(t, Tuning{}), w.node(t, Tuning{})}
	var admitted int64
	for i := range 4 * rate * seconds {
		m.pass(time.Second / (4 * rate))
		if admits(t, nodes[i%2].spend(w, "e", 1)) {
			admitted++
		}
		elapsed := int64(i+1) * int64(time.Second/(4*rate))
		require.LessOrEqual(t, admitted, capacity+elapsed*rate/int64(time.Second), "never above it")
	}
	require.InEpsilon(t, capacity+rate*seconds, admitted, 0.01)
}

// Sticky choice alone would refuse what other shards still hold: a burst takes 0.9
// of the capacity, in pieces that no single share serves often.
func TestBurstsOverABaseLoadAreDeniedNothingOnEightShards(t *testing.T) {
	const capacity, rate, cycles = 400, 80, 3
	for _, count := range []int{1, 8} {
		t.Run(fmt.Sprintf("%d shards", count), func(t *testing.T) {
			w, m := ratedWorld(t, capacity, rate, count)
			nodes := []*node{w.node(t, Tuning{}), w.node(t, Tuning{}), w.node(t, Tuning{})}
			asked, denied := 0, 0
			spend := func(tokens int64) {
				if asked++; !admits(t, nodes[asked%len(nodes)].spend(w, "e", tokens)) {
					denied++
				}
			}
			for range cycles {
				for range capacity * 9 / 10 / 6 { // the burst, all at once
					spend(6)
				}
				for range 10 * rate / 2 { // half the rate, for 10 seconds
					m.pass(2 * time.Second / rate)
					spend(1)
				}
			}
			require.Zero(t, denied, "of %d", asked)
		})
	}
}

// Denials are free: a bucket that is short is asked for once in a while by reads, and
// neither written nor divided, however many are denied.
func TestAThousandDenialsPerSecondNeitherWriteNorDivide(t *testing.T) {
	const seconds, perSecond = 5, 1000
	w, m := newManualWorld(t)
	w.setLimits(t, api.LimitsTarget{Resource: "gpt-4"}, perDay("rpm", 600))
	nodes := []*node{w.node(t, Tuning{}), w.node(t, Tuning{})}
	require.True(t, admits(t, nodes[0].spend(w, "e", 600)))
	before := []int64{nodes[0].faults.Counts()["UpdateItem"].Calls, nodes[1].faults.Counts()["UpdateItem"].Calls}
	for i := range seconds * perSecond {
		m.pass(time.Second / perSecond)
		require.False(t, admits(t, nodes[i%2].spend(w, "e", 5)))
	}
	writes := int64(0)
	for i, n := range nodes {
		n.atRest(t)
		writes += n.faults.Counts()["UpdateItem"].Calls - before[i]
		require.Zero(t, n.faults.Counts()["TransactWriteItems"].Calls)
	}
	require.LessOrEqual(t, writes, int64(seconds))
	require.Len(t, w.tree(t, "e"), 1)
}
