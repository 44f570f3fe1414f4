// Package entities keeps who is limited: names, metadata, and who stands above
// whom.
//
// # Words
//
//   - An entity's parent is the one above it; with cascade, what it spends it also
//     spends from its parent. Its ancestors are its parent, that one's, and so on.
//   - The levels of a family are at most [api.MaxLevels], and nobody is above
//     itself.
//   - Each item counts the entities below it, level by level, so that a change knows
//     without a search how deep a family is and who has children.
//   - A stub is the item of an entity that is not there, but that others have as
//     their parent.
//
// # A change of family
//
//	             below              before        after key-1 came under team
//	acme         children, …        1 0 0    ──▶  1 1 0
//	└─ team                         0 0 0    ──▶  1 0 0
//	   └─ key-1                     –        ──▶  0 0 0
//
// All of these items are written in one transaction with the change and its
// audit event, and each is conditional on being as it was read. A family that
// changes meanwhile, wherever, refuses the transaction; so that no two changes
// can together make a cycle, or one level too many.
//
// # Example
//
//	store := entities.NewStore(client, "tidegate", log)
//	e, err := store.Create(ctx, ns, by, api.EntityCreateRequest{ID: "key-1", Parent: "team", Cascade: true})
package entities
