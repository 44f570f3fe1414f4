//go:build !race

package localdynamo_test

const (
	usualKills  = 50    // of TestKill
	usualChecks = "100" // of each property
)
