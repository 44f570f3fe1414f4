package sim_test

import (
	"fmt"
	"maps"
	"math"
	"time"

	"github.com/tidegate/tidegate/pkg/api"
	tidegate "github.com/tidegate/tidegate/pkg/client"
)

// knownAge is how old the state may be by which a node denies without a write.
const knownAge = time.Second

// remember adds the state after a write, and drops what no denial can rest on any more.
func (b *books) remember(now time.Time) {
	b.history = append(b.history, snapshot{now, maps.Clone(b.shards)})
	const window = 15 * time.Second // longer than any operation lasts
	first := 0
	for first+1 < len(b.history) && b.history[first+1].at.Before(now.Add(-window)) {
		first++
	}
	b.history = b.history[first:]
}

// during returns the states that held in an interval, with the moment from which each held
// in it.
func (b *books) during(from, to time.Time) []snapshot {
	states := []snapshot{{at: from}}
	for _, s := range b.history {
		switch {
		case !s.at.After(from):
			states[0].shards = s.shards
		case !s.at.After(to):
			states = append(states, s)
		}
	}
	return states
}

// bucketEpoch is instant 0 of refill counts.
var bucketEpoch = time.Date(2025, 1, 1, 0, 0, 0, 0, time.UTC)

// balance returns the millitokens of a limit that a state holds at a moment, over all
// shards. ok is false if the state is not complete, as after an expiry of some shards.
func (s *snapshot) balance(l api.Limit, now time.Time) (sum int64, ok bool) {
	if len(s.shards) == 0 {
		return l.Capacity * 1000, true
	}
	parts := 0.0
	ms := now.Sub(bucketEpoch).Milliseconds()
	for i, state := range s.shards {
		n := state["shard_count"]
		drawn, has := state["b_"+l.Name+"_dr"]
		if !has || n == 0 {
			return 0, false
		}
		refilled := ms * (l.RefillAmount * 1000) / (l.RefillPeriodSeconds * 1000)
		share := func(x int64) int64 { return (x + int64(i)) / n }
		sum += min(share(l.Capacity*1000), share(refilled)-drawn)
		parts += 1 / float64(n)
	}
	return sum, math.Abs(parts-1) < 1e-9
}

// passes reports whether a state admits amounts at a moment. ok is false if that is
// unknown.
func (s *snapshot) passes(limits []api.Limit, amounts map[string]int64, now time.Time, slack time.Duration) (passes, ok bool) {
	for _, l := range limits {
		balance, ok := s.balance(l, now)
		if !ok {
			return false, false
		}
		spare := int64(slack.Seconds()+.002)*l.RefillAmount*1000/l.RefillPeriodSeconds + l.RefillAmount*2/l.RefillPeriodSeconds
		if balance-spare < amounts[l.Name]*1000 {
			return false, true
		}
	}
	return true, true
}

// checkDenial checks P2 and P4: a denial is false if all states that the node may have
// gone by would have admitted the request.
func (a *account) checkDenial(op *operation, denied *tidegate.DeniedError) {
	from, to := op.sent.Add(-knownAge), op.received
	short, known := false, true
	for _, at := range a.levels(op.place) {
		if changed := a.changed[at.entity]; !changed.IsZero() && changed.After(from.Add(-15*time.Second)) {
			return // the limits that the node knew are unknown
		}
		for _, state := range a.of(at).during(from, to) {
			passes, ok := state.passes(a.limits[at.entity], op.amounts, state.at, a.skew)
			known = known && ok
			short = short || !passes
		}
		if a.neverPasses(at, op.amounts) {
			short = true
		} else if denied.Never && len(a.levels(op.place)) == 1 {
			a.world.fail("P4", fmt.Sprintf("operation %d can never pass, it was told", op.number))
		}
	}
	if known && !short {
		a.world.fail("P2", fmt.Sprintf("operation %d was refused, and the bucket held its cost all the time", op.number))
	}
	if known && !denied.Never && len(a.levels(op.place)) == 1 && a.skew == 0 {
		a.checkRetryAfter(op, denied.RetryAfter)
	}
}

func (a *account) neverPasses(at place, amounts map[string]int64) bool {
	for _, l := range a.limits[at.entity] {
		if amounts[l.Name] > l.Capacity {
			return true
		}
	}
	return false
}

// checkRetryAfter checks that the request would pass after the time that the denial
// tells, and not earlier, from at least one of the states that the node may have gone by.
func (a *account) checkRetryAfter(op *operation, after time.Duration) {
	if after > 10*24*time.Hour {
		return // sums of shards beyond it are not worth the search
	}
	limits := a.limits[op.place.entity]
	for _, state := range a.of(op.place).during(op.sent.Add(-knownAge), op.received) {
		early, okEarly := state.passesAt(limits, op.amounts, op.sent.Add(after-2*time.Millisecond))
		late, okLate := state.passesAt(limits, op.amounts, op.received.Add(after+2*time.Millisecond))
		if !okEarly || !okLate || late && (!early || op.received.Sub(op.sent) > after) {
			return
		}
	}
	a.world.fail("P4", fmt.Sprintf("operation %d is to wait %v, which fits no state that the bucket had", op.number, after))
}

// passesAt reports whether the state admits amounts at a moment, exactly.
func (s *snapshot) passesAt(limits []api.Limit, amounts map[string]int64, now time.Time) (passes, ok bool) {
	for _, l := range limits {
		balance, ok := s.balance(l, now)
		if !ok {
			return false, false
		}
		if balance < amounts[l.Name]*1000 {
			return false, true
		}
	}
	return true, true
}
