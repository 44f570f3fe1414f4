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

// longer is the longer of two waits; never is the longest.
func longer(a, b int64) int64 {
	if a == neverMs || b == neverMs {
		return neverMs
	}
	return max(a, b)
}
