package loadgen

import "math"

// Report holds the results of a run.
type Report struct {
	Seconds     float64 `json:"seconds"`
	Interrupted bool    `json:"interrupted,omitempty"`
	Entities    int     `json:"entities"`

	Requests int64   `json:"requests"` // acquires sent
	Rate     float64 `json:"requests_per_second"`
	Admitted int64   `json:"admitted"`
	Denied   int64   `json:"denied"`
	// DeniedBy counts denials by limit; a denial counts for every exceeded limit.
	DeniedBy map[string]int64 `json:"denied_by_limit"`
	// Degraded admissions were given without asking the limits. They are not
	// among Admitted.
	Degraded int64            `json:"degraded"`
	Errors   map[string]int64 `json:"errors"` // of acquires, by code
	// Late acquires could not be sent when they were due, because as many as may
	// be under way were. Their latency counts from when they were due.
	Late int64 `json:"late"`

	Acquire Latencies `json:"acquire"`

	// Settlements is absent where the run settles nothing.
	Settlements *Settlements `json:"settlements,omitempty"`
	Cost        Cost         `json:"cost"`
	Check       Verdict      `json:"check"`
}

// Settlements counts the adjustments of reservations to the actual costs.
type Settlements struct {
	Adjusted int64            `json:"adjusted"`
	Exact    int64            `json:"exact"` // needed no adjustment
	Errors   map[string]int64 `json:"errors"`
	Reserved int64            `json:"tokens_reserved"` // by admitted acquires
	Settled  int64            `json:"tokens_settled"`  // the actual cost of these requests, where settling succeeded
	Latency  Latencies        `json:"latency"`
}

// Cost holds the run's cost to the store, from the nodes' metrics. It includes all
// work of these nodes during the run, also for other callers.
type Cost struct {
	// NotMeasured is the reason for missing figures; empty if they were measured.
	NotMeasured string  `json:"not_measured,omitempty"`
	Writes      int64   `json:"writes"` // of buckets, refused ones included
	Reads       int64   `json:"reads"`
	WriteUnits  float64 `json:"wcu"`
	ReadUnits   float64 `json:"rcu"`
	// Per admitted acquire, its settlement included.
	WritesPerAcquire float64 `json:"writes_per_acquire"`
	UnitsPerAcquire  float64 `json:"wcu_per_acquire"`
}

// Verdict reports whether any limit was exceeded, recomputed from the replies.
type Verdict struct {
	// NotChecked is the reason for a missing verdict; empty if all limits were checked.
	NotChecked string      `json:"not_checked,omitempty"`
	Limits     int         `json:"limits"`     // checked limits, over all entities
	Admissions int         `json:"admissions"` // checked admissions
	Violations []Violation `json:"violations"`
}

// Exceeded reports whether a limit certainly admitted more than it may.
func (v Verdict) Exceeded() bool { return len(v.Violations) > 0 }

// perAcquire fills in the ratios; nothing admitted makes them 0.
func (c *Cost) perAcquire(admitted int64) {
	if admitted == 0 {
		return
	}
	c.WritesPerAcquire = float64(c.Writes) / float64(admitted)
	c.UnitsPerAcquire = c.WriteUnits / float64(admitted)
}

// rate is a count per second, 0 for no time at all.
func rate(count int64, secs float64) float64 {
	if r := float64(count) / secs; !math.IsInf(r, 0) && !math.IsNaN(r) {
		return r
	}
	return 0
}
