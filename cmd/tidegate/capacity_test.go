package main

import "testing"

// TestCapacity spends in several ways and sums up. The limits regain a token in
// weeks, so that balances stand still.
func TestCapacity(t *testing.T) {
	s := startUp(t)
	env := map[string]string{"TIDEGATE_NATS": s.nats}
	text := transcript(t, env,
		"capacity gpt-4",
		"capacity gpt/",
		"capacity 4gpt",
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
	golden(t, "capacity.txt", steady(text))
}
