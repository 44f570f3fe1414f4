//go:build !race

package engine_test

const (
	usualKills  = 50    // of TestKill
	usualChecks = "100" // of each property
)
