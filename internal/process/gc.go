package process

import (
	"context"
	"runtime/debug"
	"runtime/metrics"
	"time"
)

const (
	// gcRoom is the memory that may be allocated between two collections, in bytes. The live
	// heap of a service is some 10 MB, and its goroutines are many, so that most of a
	// collection is their stacks: Go's own pace would collect twenty times a second
	// under load, and each collection delays the decisions made during it.
	gcRoom = 256 << 20
	// gcMost is GOGC of the smallest heaps, and before the first is known.
	gcMost = 2000
	// gcLeast is GOGC of the largest heaps: their collections are dear.
	gcLeast = 50

	gcEvery = time.Second
)

// gcPercentFor is GOGC for so many bytes of live objects.
func gcPercentFor(live uint64) int {
	if live == 0 {
		return gcMost
	}
	return int(min(gcMost, max(gcLeast, gcRoom*100/live)))
}

// PaceGC keeps GOGC fit for the heap until the context ends: the program grows
// by 256 MB at most between two collections, or by half of the live heap. If the
// environment sets GOGC, PaceGC leaves the pace alone; GOMEMLIMIT holds in any case.
func PaceGC(ctx context.Context, environment string) {
	if environment != "" {
		return
	}
	set := gcMost
	debug.SetGCPercent(set)
	live := []metrics.Sample{{Name: "/gc/heap/live:bytes"}}
	ticker := time.NewTicker(gcEvery)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		metrics.Read(live)
		// Each change stops the world for a moment, so small ones are not made.
		if want := gcPercentFor(live[0].Value.Uint64()); want*10 < set*9 || want*9 > set*10 {
			set = want
			debug.SetGCPercent(set)
		}
	}
}
