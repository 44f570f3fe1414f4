package main

import (
	"testing"

	"github.com/tidegate/tidegate/pkg/api"
)

// TestCapacity spends in several ways and sums up. The limits regain a token in
// weeks, so that balances stand still.
func TestCapacity(t *testing.T) {
	t.Parallel()
	s := share(t)
	env := s.environment()
	text := transcript(t, env,
		"capacity gpt-4",
		"capacity gpt/",
		"capacity _default_",
		"limits set --resource gpt-4 rpm=10/520week tpm=1000/520week",
		"acquire key-1 gpt-4 rpm=4 tpm=250",
		"acquire key-2 gpt-4 rpm=10",
		"acquire key-3 gpt-4 tpm=1",
		"adjust $LEASE tpm=+1049",
		"acquire key-1 gpt-3",
		"capacity gpt-4",
		"capacity gpt-4 --entities",
		"capacity gpt-4 --json",
		"capacity gpt-4 --entities --json",
		"limits delete --resource gpt-4",
		"capacity gpt-4 --entities",
	)
	golden(t, "capacity.txt", s.placeless(steady(text)))
}

// TestDamageIsNamed shows what cannot be read beside what can.
func TestDamageIsNamed(t *testing.T) {
	rpm := api.LimitCapacity{Name: "rpm", Capacity: 10, Available: 6}
	report := resourceCapacity{Resource: "gpt-4", Entities: 3, Damaged: []string{"key-2", "key-3"}, Totals: api.CapacityTotals{}}
	report.Totals.Count([]api.LimitCapacity{rpm})
	var text page
	printCapacity(&text, report)
	report.Rows = []api.EntityCapacity{{Entity: "key-1", Shards: 1, Limits: []api.LimitCapacity{rpm}}, {Entity: "key-2", Damaged: true}, {Entity: "key-3", Damaged: true}}
	text.line("")
	printCapacity(&text, report)
	text.line("")
	printStatus(&text, "key-1", api.StatusReply{Damaged: []string{"gpt-5"}, Limits: []api.LimitStatus{{Entity: "key-1", Resource: "gpt-4", Name: "rpm", Capacity: 10, Available: 6}}})
	text.line("")
	printStatus(&text, "key-1", api.StatusReply{Damaged: []string{"gpt-4", "gpt-5"}})
	golden(t, "damage.txt", text.String())
}
