// Package config holds the settings that operators make: namespaces, entities,
// stored limits, and manifests that declare limits in a file.
//
//	            NamespaceOperator ─┐
//	admin verb  EntityStore ───────┼──▶ audit.Log.Apply ──▶ one transaction: the items and their audit event
//	            LimitStore ────────┘
//	admission   NamespaceCache.Lookup ──▶ namespace id ──▶ LimitStore.Resolve ──▶ the limits of a bucket
//	command     FILE.yaml ──▶ ParseManifest ──▶ Manifest.Diff(stored levels) ──▶ ManifestPlan
//
// # Glossary
//
// Limits:
//
//   - A config level is a place where limits are stored: an entity with a
//     resource, an entity with all its other resources, a resource, or the system.
//   - A target names a config level in requests ([api.LimitsTarget]).
//   - The winner is the most specific config level that has limits. All its limits
//     apply, and no others.
//   - A level is stored if it has an item. An item may hold a policy and no limits;
//     such a level does not win.
//   - The fingerprint is a hash of the settings to which a bucket item is synced.
//     Nodes compare the fingerprint instead of the settings.
//
// Entities:
//
//   - The parent of an entity is the entity above it. With cascade, an acquire of the
//     entity also spends from the parent. A family has at most [api.MaxLevels] levels
//     and no cycle.
//   - Each item counts its descendants, level by level. A change can check the depth
//     of a family and the existence of children without a search.
//   - A stub is the item of a missing entity that other entities have as their parent.
//
// Namespaces:
//
//   - A name is the text that users type, [a-z0-9][a-z0-9-]{0,62}. An id is 11 random
//     characters and starts every key. A name that is reused later gets another id.
//   - The registry is the part of the table that belongs to no tenant. Each namespace
//     has a forward item (name to id and state) and a reverse item (id to name), made
//     in one transaction.
//   - A deleted namespace refuses requests and keeps its items. A purge removes its
//     items, a step per request, and its registry items last.
//
// Manifests:
//
//   - A manifest is the content of a file: all limits that it manages in one
//     namespace, under a name of its own.
//   - A manifest manages a level if it was the last writer of the level's limits: the
//     level carries the manifest's name. Setting the limits by hand removes the name.
//   - A step is the change of one level. It is valid for the version of the level
//     that the plan was made from.
//   - A problem is a mistake in the file, with its line and a fix.
//
// # Which limits apply
//
//	entity + resource   {entity: alice, resource: gpt-4}   –              not stored
//	entity              {entity: alice}                    rpm=100/min    wins
//	resource            {resource: gpt-4}                  tpm=5000/min   ignored: levels win as a whole
//	system              {system: true}                     rpm=10/min     ignored
//
// The unavailable policy is resolved separately: the most specific level that
// sets a policy wins, whether it has limits or not.
//
//	limits := config.NewLimitStore(client, "tidegate", log)
//	r, err := limits.Resolve(ctx, ns, "alice", "gpt-4")
//	// r.Limits = rpm, r.Level = LevelEntity, r.Permanent = false
//
// # Changes
//
// A change reads the items, and writes them on condition that their versions and
// the nonces of their last writes are unchanged. The write is one transaction with
// the audit event; package audit repeats it until the outcome is known.
//
// An entity that moves also changes the counts of its ancestors:
//
//	             descendants        before        after key-1 moved under team
//	acme         children, …        1 0 0    ──▶  1 1 0
//	└─ team                         0 0 0    ──▶  1 0 0
//	   └─ key-1                     –        ──▶  0 0 0
//
// All these items are in the transaction, so two changes at the same time cannot
// together make a cycle or exceed the number of levels.
//
// # Life of a namespace
//
//	          Create            Delete             Purge (first step)
//	(nothing) ──────▶ active ──────────▶ deleted ────────────▶ purging
//	    ▲                ▲    Recover       │                     │
//	    │                └──────────────────┘                     │
//	    └─────────────────────────────────────────────────────────┘
//	                     Purge (last step): the name is free
//
// Each arrow is one transaction with an audit event in the registry. A purge lists
// items by GSI4. The index follows the table, so a purge ends only when the index
// is empty twice, a second apart. A node that still knows the id may write
// afterwards; such items are unreachable, because an id is never reused.
//
// # Lookup of a namespace
//
//	request ──▶ NamespaceCache.Cached ── known ──▶ id, without I/O
//	                │ not known, or older than 60 s, or changed
//	                ▼
//	            NamespaceCache.Lookup ── one read, shared by all callers ──▶ Namespaces.Lookup ──▶ table
//
// While the table is unreachable, the cache keeps the ids that it has.
//
// # Example of a manifest
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
//	m, problems := config.ParseManifest("gateway.yaml", data)
//	plan := m.Diff(nil) // nothing is stored
//	// plan.Steps: + system, + resource gpt-4, + entity api-key-123, + entity api-key-123 on gpt-4
//
// A plan never deletes a level that the manifest does not manage. It takes over a
// level that another writer has set only if the caller asks for it.
package config
