package admission

import (
	"github.com/tidegate/tidegate/pkg/api"
	"github.com/tidegate/tidegate/pkg/bucket"
)

// statuses lists the limits of one level, by name, as an answer to amounts.
func (r *result) statuses(amounts api.Amounts) []api.LimitStatus {
	statuses := make([]api.LimitStatus, 0, len(r.item.Limits))
	for i := range r.item.Limits {
		if !r.governed(i) {
			continue
		}
		l := &r.item.Limits[i]
		tokens, _ := amounts.Get(l.Name)
		statuses = append(statuses, api.LimitStatus{
			Entity:    r.item.Key.Entity,
			Name:      l.Name,
			Capacity:  bucket.Floor(l.Capacity),
			Requested: tokens,
			Available: bucket.Floor(r.available(i)),
		})
	}
	return statuses
}

// neverMs is the wait for what can never pass.
const neverMs int64 = -1

// verdictOf marks the limits that are short of what amounts ask, and returns in
// how many milliseconds all of them would hold it.
func (r *result) verdictOf(amounts api.Amounts) (statuses []api.LimitStatus, waitMs int64, allowed bool) {
	statuses, allowed = r.statuses(amounts), true
	next := 0
	for i := range r.item.Limits {
		if !r.governed(i) {
			continue
		}
		status := &statuses[next]
		next++
		pool, cost := r.pool(i), status.Requested*bucket.Milli
		if pool.Holds(cost, r.now) {
			continue
		}
		ms, ever := pool.RetryAfter(cost, r.now)
		if !ever {
			ms = neverMs
		}
		allowed, status.Exceeded, status.Never, status.RetryAfterMs = false, true, !ever, ms
		waitMs = longer(waitMs, ms)
	}
	return statuses, waitMs, allowed
}

// verdictOver is verdictOf over several levels: all limits of all levels, in how
// many milliseconds all of them would hold what amounts ask, and whether they do.
// States of different moments are looked at as of the latest of them: balances
// only grow by themselves.
func verdictOver(levels []*result, amounts api.Amounts) (statuses []api.LimitStatus, waitMs int64, allowed bool) {
	now := levels[0].now
	for _, l := range levels {
		now = max(now, l.now)
	}
	allowed = true
	for _, l := range levels {
		l.now, l.later = now, nil
		of, wait, holds := l.verdictOf(amounts)
		statuses = append(statuses, of...)
		waitMs, allowed = longer(waitMs, wait), allowed && holds
	}
	return statuses, waitMs, allowed
}

// holds reports whether all limits hold what amounts ask.
func (r *result) holds(amounts api.Amounts) bool {
	for i := range r.item.Limits {
		if r.governed(i) && !r.pool(i).Holds(costOf(amounts, r.item.Limits[i].Name), r.now) {
			return false
		}
	}
	return true
}

// longer is the longer of two waits; never is the longest.
func longer(a, b int64) int64 {
	if a == neverMs || b == neverMs {
		return neverMs
	}
	return max(a, b)
}
