package loadgen

import (
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
)

// Latencies are percentiles of a duration, in milliseconds.
type Latencies struct {
	Count int64   `json:"count"`
	Mean  float64 `json:"mean_ms"`
	P50   float64 `json:"p50_ms"`
	P90   float64 `json:"p90_ms"`
	P99   float64 `json:"p99_ms"`
	P999  float64 `json:"p999_ms"`
	Max   float64 `json:"max_ms"`
}

const (
	longestMicros = int64(10 * time.Minute / time.Microsecond)
	digits        = 3 // significant digits of a recorded value
)

// histogram counts durations in microseconds.
func newHistogram() *hdrhistogram.Histogram {
	return hdrhistogram.New(1, longestMicros, digits)
}

// observe counts a duration, at most the longest that the histogram keeps.
func observe(h *hdrhistogram.Histogram, d time.Duration) {
	_ = h.RecordValue(min(max(d.Microseconds(), 1), longestMicros)) // it only fails outside these bounds
}

func latenciesOf(h *hdrhistogram.Histogram) Latencies {
	const micros = 1e-3 // of a millisecond
	at := func(percent float64) float64 { return float64(h.ValueAtQuantile(percent)) * micros }
	return Latencies{
		Count: h.TotalCount(), Mean: h.Mean() * micros,
		P50: at(50), P90: at(90), P99: at(99), P999: at(99.9), Max: float64(h.Max()) * micros,
	}
}
