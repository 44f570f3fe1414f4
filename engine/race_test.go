//go:build race

package engine_test

// The race detector makes kills and histories ten times slower, so it watches few
// of them; without it there are many, which make test runs as well.
const (
	usualKills  = 8
	usualChecks = "25"
)
