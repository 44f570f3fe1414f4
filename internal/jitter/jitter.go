// Package jitter spreads moments at random, so that processes that began together do not
// retry together. Nothing but moments may depend on it: it is not for secrets or names.
//
//	time.Sleep(longest/2 + jitter.N(longest/2))
//
// A simulation replaces the randomness, so that a history can be run again.
package jitter

import (
	"math/rand/v2"
	"sync/atomic"
)

// source returns random numbers; nil: those of math/rand.
//
//nolint:gochecknoglobals // a simulation replaces it for all services of the process
var source atomic.Pointer[func() uint64]

// N returns a random number in [0, n). It panics if n is not positive.
func N[T ~int | ~int64](n T) T {
	draw := source.Load()
	if draw == nil {
		return rand.N(n)
	}
	if n <= 0 {
		panic("jitter: the bound of N is not positive")
	}
	return T((*draw)() % uint64(n)) //nolint:gosec // less than n
}

// Replace sets the source of the whole process, until restore is called. Draw must be safe
// for concurrent use.
func Replace(draw func() uint64) (restore func()) {
	before := source.Swap(&draw)
	return func() { source.Store(before) }
}
