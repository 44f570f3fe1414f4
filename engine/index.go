package engine

import (
	"fmt"
	"slices"

	"github.com/tidwall/btree"

	"github.com/tidegate/tidegate/engine/attr"
)

// projection selects the attributes that an index carries besides the keys.
type projection uint8

const (
	projectKeys projection = iota
	projectInclude
	projectAll
)

// index is a global secondary index: sparse, and always up to date. Its rows are the
// table's rows under another key, so an entry takes only a key and a pointer. Engine.mu
// guards all of it.
type index struct {
	name    string
	keys    keySchema
	project projection
	include []string // projectInclude only

	rows btree.Map[string, *row]
	size int64 // bytes of all entries as projected
}

// storage returns the storage key of an item in the index. It ends with the table
// key, which distinguishes items with equal index keys.
func (x *index) storage(item attr.Item, tableKey string) string {
	part := partitionPrefix(item[x.keys.part.name])
	if x.keys.sort.name == "" {
		return part + tableKey
	}
	return part + escape(item[x.keys.sort.name].SortKey()) + valueEnd + tableKey
}

// carries reports whether the item has an entry in the index: it has the index's
// keys, with the right types. Items older than the index may have other types.
func (x *index) carries(item attr.Item) bool {
	for _, p := range x.keys.parts() {
		if v, ok := item[p.name]; !ok || v.Kind() != p.kind {
			return false
		}
	}
	return true
}

// checkIndexes refuses an item that an index could not hold.
func checkIndexes(indexes []*index, item attr.Item) error {
	for _, x := range indexes {
		if err := x.check(item); err != nil {
			return err
		}
	}
	return nil
}

// check refuses an item whose index keys are empty or have the wrong type.
func (x *index) check(item attr.Item) error {
	for i, p := range x.keys.parts() {
		v, ok := item[p.name]
		if !ok {
			continue
		}
		if v.Kind() != p.kind {
			return validation("One or more parameter values were invalid: Type mismatch for Index Key %s "+
				"Expected: %s Actual: %s IndexName: %s", p.name, p.kind, v.Kind(), x.name)
		}
		most := maxPartitionKey
		if i == 1 {
			most = maxSortKey
		}
		switch size := v.Size(); {
		case size == 0 && p.kind != attr.KindN:
			return &apiError{name: typeValidation, whole: true, message: fmt.Sprintf("One or more parameter values are not valid. "+
				"A value specified for a secondary index key is not supported. The AttributeValue for a key attribute "+
				"cannot contain an empty %s value. IndexName: %s, IndexKey: %s", kindWord(p.kind), x.name, p.name)}
		case size > most:
			return validation("One or more parameter values were invalid: Size of the index key %s has exceeded "+
				"the maximum size limit of %d bytes. IndexName: %s", p.name, most, x.name)
		}
	}
	return nil
}

// shows reports whether the index carries an attribute of the table's items.
func (x *index) shows(table *keySchema, name string) bool {
	return x.project == projectAll || table.has(name) || x.keys.has(name) || slices.Contains(x.include, name)
}

// projected returns the attributes of an item that the index carries.
func (x *index) projected(table *keySchema, item attr.Item) attr.Item {
	if x.project == projectAll {
		return item
	}
	out := make(attr.Item, 4+len(x.include))
	table.copyInto(out, item)
	x.keys.copyInto(out, item)
	for _, name := range x.include {
		if v, ok := item[name]; ok {
			out[name] = v
		}
	}
	return out
}

// change is the effect of a write on an index.
type change struct {
	index    *index
	from, to string // places; empty: no entry
	grow     int    // bytes
	cost     float64
}

// plan compares the images of a written item. An index costs nothing unless an
// attribute that it carries has changed, and costs double if the entry moves.
func (x *index) plan(t *table, tableKey string, before, after attr.Item) change {
	c := change{index: x}
	had, has := x.carries(before), x.carries(after)
	if !had && !has || had && has && x.same(before, after) {
		return c
	}
	var sizeBefore, sizeAfter int
	if had {
		c.from = x.storage(before, tableKey)
		sizeBefore = x.projected(&t.keys, before).Size()
	}
	if has {
		c.to = x.storage(after, tableKey)
		sizeAfter = x.projected(&t.keys, after).Size()
	}
	c.grow = sizeAfter - sizeBefore
	if c.from == c.to {
		c.cost = units(max(sizeBefore, sizeAfter), writeUnit)
		return c
	}
	if had {
		c.cost += units(sizeBefore, writeUnit)
	}
	if has {
		c.cost += units(sizeAfter, writeUnit)
	}
	return c
}

// same reports whether two images of an item are equal in the index.
func (x *index) same(before, after attr.Item) bool {
	if x.project == projectAll {
		return sameItem(before, after)
	}
	for _, p := range x.keys.parts() {
		if !before[p.name].Equal(after[p.name]) {
			return false
		}
	}
	return !slices.ContainsFunc(x.include, func(name string) bool {
		return !sameAttribute(before, after, name)
	})
}

func (x *index) apply(c change, r *row) {
	if c.from != "" && c.from != c.to {
		x.rows.Delete(c.from)
	}
	if c.to != "" {
		x.rows.Set(c.to, r)
	}
	x.size += int64(c.grow)
}

func sameAttribute(a, b attr.Item, name string) bool {
	x, inA := a[name]
	y, inB := b[name]
	return inA == inB && (!inA || x.Equal(y))
}

func sameItem(a, b attr.Item) bool {
	if len(a) != len(b) || (a == nil) != (b == nil) {
		return false
	}
	for name, v := range a {
		if w, ok := b[name]; !ok || !v.Equal(w) {
			return false
		}
	}
	return true
}
