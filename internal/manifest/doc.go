// Package manifest reads limits that are declared in a YAML file, and plans how
// to get from what is stored to what is declared. It does no I/O.
//
//	FILE.yaml ──▶ Parse ──▶ Manifest ─┐
//	                                  ├─▶ Diff ──▶ Plan: + create, ~ change, ! take over, - delete
//	stored levels ────────────────────┘
//
// # Words
//
//   - A manifest is the file's content: all limits that it manages in one
//     namespace, under a name of its own.
//   - It manages a level if it was the last to set the level's limits: the level
//     carries the manifest's name. Whoever sets the limits by hand takes the name
//     away.
//   - A step is one level to change. It holds for the version of the level that
//     the plan has seen, and for no other.
//   - A problem is what is wrong with the file, with its line and what to do.
//
// # Example
//
//	namespace: default
//	manifest: gateway
//	limits:
//	  system: {rpm: 100/min}
//	  resources:
//	    gpt-4: {rpm: 60/min, tpm: 10000/min:20000}
//	  entities:
//	    api-key-123:
//	      _default_: {rpm: 10/min}
//	      gpt-4: {tpm: 500/min}
//	on_unavailable:
//	  system: allow
//
// Planned on an empty store:
//
//	m, problems := manifest.Parse("gateway.yaml", data)
//	plan := m.Diff(nil)
//	// plan.Steps: + system, + resource gpt-4, + entity api-key-123, + entity api-key-123 on gpt-4
//
// What it does not manage it never deletes; a level that somebody else has set
// is only taken over when that is asked for.
package manifest
