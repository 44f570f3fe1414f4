package localdynamo_test

import (
	"maps"
	"slices"
	"testing"
)

// TestConformance runs every check on both ways to reach an engine.
func TestConformance(t *testing.T) {
	for name, open := range map[string]func(*testing.T) backend{"in process": inProcess, "loopback": loopback} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			suite(t, open(t))
		})
	}
}

// suite is what any DynamoDB-compatible back end must pass through the
// unmodified SDK client.
func suite(t *testing.T, b backend) {
	t.Helper()
	groups := map[string]map[string]func(*testing.T, *table){
		"tables":       tableChecks(),
		"items":        itemChecks(),
		"updates":      updateChecks(),
		"batches":      batchChecks(),
		"queries":      queryChecks(),
		"transactions": transactionChecks(),
		"capacity":     capacityChecks(),
		"validation":   validationChecks(),
	}
	for _, group := range slices.Sorted(maps.Keys(groups)) {
		t.Run(group, func(t *testing.T) {
			for _, name := range slices.Sorted(maps.Keys(groups[group])) {
				t.Run(name, func(t *testing.T) { groups[group][name](t, b.table(t)) })
			}
		})
	}
}
