// Package limits keeps the stored limits of a namespace and says which of them
// hold.
//
// # Words
//
//   - A config level is a place where limits are stored: an entity's for one
//     resource, an entity's for all its other resources, a resource's, the
//     system's.
//   - A level wins as a whole: its limits hold, and no others.
//   - A target names a level in requests ([api.LimitsTarget]).
//   - The fingerprint stands for everything about the settings that a bucket
//     item is synced to. Nodes compare it instead of the settings.
//   - A level is stored when it has an item, which may hold a policy and no
//     limits; such a level does not win.
//
// # Which limits hold
//
//	entity + resource   {entity: alice, resource: gpt-4}   –              not stored
//	entity              {entity: alice}                    rpm=100/min    wins
//	resource            {resource: gpt-4}                  tpm=5000/min   does not count: whole levels win
//	system              {system: true}                     rpm=10/min     does not count
//
// The unavailable policy is looked up on its own: the first level that has one
// gives it, whichever level's limits hold.
//
//	r, err := store.Resolve(ctx, ns, "alice", "gpt-4")
//	// r.Limits = rpm, r.Level = LevelEntity, r.Permanent = false
//
// # Changes
//
// A change reads the level's item, and writes under the condition that it is
// still as it was read: config_version and the last writer's nonce. It stands in
// one transaction with its audit event; package audit repeats it and finds out
// what became of it.
package limits
