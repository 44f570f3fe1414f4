package fault

import (
	"math"
	"math/rand/v2"
	"slices"
	"time"
)

// Latency draws the latency of a request, both ways together.
type Latency func(*rand.Rand) time.Duration

// Fixed returns the same latency for all requests.
func Fixed(d time.Duration) Latency {
	return func(*rand.Rand) time.Duration { return d }
}

// Uniform draws evenly from [low, high).
func Uniform(low, high time.Duration) Latency {
	return func(r *rand.Rand) time.Duration {
		return low + time.Duration(r.Float64()*float64(high-low))
	}
}

// LogNormal has a long tail: half of the latencies are below p50, 99 % below p99.
func LogNormal(p50, p99 time.Duration) Latency {
	const z99 = 2.326347874 // standard deviations to the 99th percentile
	sigma := math.Log(float64(p99)/float64(p50)) / z99
	return func(r *rand.Rand) time.Duration {
		return time.Duration(float64(p50) * math.Exp(sigma*r.NormFloat64()))
	}
}

// Chance is a fault that strikes at random.
type Chance struct {
	Probability float64  // of each request, 0 to 1
	Operations  []string // that it may strike; empty: all
	Fault       Fault
}

// concerns reports whether the fault may strike an operation.
func (c *Chance) concerns(operation string) bool {
	return len(c.Operations) == 0 || slices.Contains(c.Operations, operation)
}

// pick returns the first fault that strikes. It draws for each chance, whether or
// not the chance concerns the operation, so that the nth request of a run gets the
// same draws, whatever its operation.
func pick(chances []Chance, operation string, r *rand.Rand) Fault {
	var struck Fault
	found := false
	for i := range chances {
		if hit := r.Float64() < chances[i].Probability; hit && !found && chances[i].concerns(operation) {
			struck, found = chances[i].Fault, true
		}
	}
	return struck
}
