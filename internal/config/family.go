package config

import (
	"context"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/tidegate/tidegate/internal/table"
	"github.com/tidegate/tidegate/pkg/api"
)

// counts holds the number of descendants of an entity at each level below it.
type counts = [api.MaxLevels - 1]int64

// family holds the items of an entity and its ancestors: as a change has read them,
// and as it will leave them.
type family struct {
	store *EntityStore
	ns    string
	read  map[string]*table.Entity // by id, as read; nil for an item that is not there
	after map[string]*table.Entity // those that change, by id; nil for an item that goes
	order []string                 // ids in the order of their reading, so that equal changes are written alike
}

func (s *EntityStore) family(ns string) *family {
	return &family{store: s, ns: ns, read: map[string]*table.Entity{}, after: map[string]*table.Entity{}}
}

// member reads an item, at most once.
func (f *family) member(ctx context.Context, id string) (*table.Entity, error) {
	if e, ok := f.read[id]; ok {
		return e, nil
	}
	e, err := f.store.entity(ctx, f.ns, id)
	if err != nil {
		return nil, err
	}
	f.read[id], f.order = e, append(f.order, id)
	return e, nil
}

// ancestors returns a parent and its ancestors, the nearest first, up to the number
// of levels. It reports a cycle if they lead back to the entity.
func (f *family) ancestors(ctx context.Context, of, parent string) (line []string, cycle bool, err error) {
	for id := parent; id != "" && len(line) < api.MaxLevels; {
		if id == of {
			return line, true, nil
		}
		line = append(line, id)
		e, err := f.member(ctx, id)
		if err != nil {
			return nil, false, err
		}
		if id = ""; e != nil {
			id = e.Parent
		}
	}
	return line, false, nil
}

// join adds an entity and its descendants to the counts of its ancestors; a
// negative sign subtracts them.
func (f *family) join(line []string, below counts, sign int64) {
	for distance, id := range line {
		e := f.changed(id)
		if e == nil {
			continue // an item that was taken away by hand
		}
		if distance < len(e.Below) {
			e.Below[distance] = max(0, e.Below[distance]+sign)
		}
		for level, n := range below {
			if at := distance + 1 + level; at < len(e.Below) {
				e.Below[at] = max(0, e.Below[at]+sign*n)
			}
		}
	}
}

// fits fails with the code invalid_parent if an entity and its descendants would
// exceed the number of levels under its ancestors.
func fits(line []string, below counts) error {
	height := 0
	for level, n := range below {
		if n > 0 {
			height = level + 1
		}
	}
	if len(line)+1+height > api.MaxLevels {
		return api.Errorf(api.CodeInvalidParent, "parent",
			"under %s there would be more than %d levels, from the highest ancestor to the lowest child", line[0], api.MaxLevels)
	}
	return nil
}

// changed returns a member as the change will leave it, for further changes, or nil
// if it has no item.
func (f *family) changed(id string) *table.Entity {
	if e, ok := f.after[id]; ok || f.read[id] == nil {
		return e
	}
	e := *f.read[id]
	f.after[id] = &e
	return &e
}

// set stores how the change leaves a member that was read.
func (f *family) set(e *table.Entity) { f.after[e.Key.ID] = e }

// writes returns the writes of the change: it writes the members that change, and
// checks the members that the change relies on.
func (f *family) writes(nonce string) []types.TransactWriteItem {
	writes := make([]types.TransactWriteItem, 0, len(f.order))
	for _, id := range f.order {
		known := f.read[id]
		after, touched := f.after[id]
		switch {
		case !touched && known == nil:
			// An entity without an item has no parent, and a missing parent is
			// refused.
		case !touched || known != nil && after.Below == known.Below && after.Version == known.Version:
			writes = append(writes, table.CheckEntityWrite(f.store.table, known))
		case after.Version == 0 && after.Below == counts{}:
			writes = append(writes, table.DeleteEntityWrite(f.store.table, known))
		default:
			after.LastWrite = nonce
			form := table.SetEntity{Known: known, After: after}
			writes = append(writes, form.Write(f.store.table))
		}
	}
	return writes
}
