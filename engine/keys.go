package engine

import (
	"strings"

	"github.com/tidegate/tidegate/engine/attr"
	"github.com/tidegate/tidegate/engine/expr"
)

// DynamoDB's maximum sizes of key values, in bytes.
const (
	maxPartitionKey = 2048
	maxSortKey      = 1024
)

// keyPart is an attribute of a key.
type keyPart struct {
	name string
	kind attr.Kind // S, N or B
}

// keySchema is the key of a table or an index. Without a sort key, sort.name is
// empty.
type keySchema struct {
	part, sort keyPart
}

func (k *keySchema) parts() []keyPart {
	if k.sort.name == "" {
		return []keyPart{k.part}
	}
	return []keyPart{k.part, k.sort}
}

func (k *keySchema) has(name string) bool {
	return name == k.part.name || k.sort.name != "" && name == k.sort.name
}

// copyInto copies the key attributes of item into dst.
func (k *keySchema) copyInto(dst, item attr.Item) {
	for _, p := range k.parts() {
		if v, ok := item[p.name]; ok {
			dst[p.name] = v
		}
	}
}

// of returns the key of an item, as a separate item.
func (k *keySchema) of(item attr.Item) attr.Item {
	key := make(attr.Item, 2)
	k.copyInto(key, item)
	return key
}

// storage returns the storage key of an item in its table: a string whose byte order
// is DynamoDB's key order. The item has been checked.
func (k *keySchema) storage(item attr.Item) string {
	s := partitionPrefix(item[k.part.name])
	if k.sort.name != "" {
		s += escape(item[k.sort.name].SortKey())
	}
	return s
}

// Storage keys join the values of a key and preserve their order. A zero byte inside
// a value becomes 0x00 0xff, and 0x00 0x01 ends the value. So a value sorts before
// each longer value that begins with it.
const (
	valueEnd = "\x00\x01"
	afterEnd = "\x00\x02" // behind every key that has this value, before any longer value
)

func escape(s string) string {
	if strings.IndexByte(s, 0) < 0 {
		return s
	}
	return strings.ReplaceAll(s, "\x00", "\x00\xff")
}

func partitionPrefix(v attr.Value) string { return escape(v.SortKey()) + valueEnd }

// successor returns the least string behind every string that begins with prefix;
// prefix has a byte below 0xff, because it contains a valueEnd.
func successor(prefix string) string {
	b := []byte(prefix)
	for b[len(b)-1] == 0xff {
		b = b[:len(b)-1]
	}
	b[len(b)-1]++
	return string(b)
}

// checkItem refuses an item that cannot be stored under the table's key.
func (k *keySchema) checkItem(item attr.Item) error {
	if err := k.matchItem(item); err != nil {
		return err
	}
	return k.checkSizes(item)
}

// matchItem refuses an item without the table's key attributes in their types.
func (k *keySchema) matchItem(item attr.Item) error {
	for _, p := range k.parts() {
		v, ok := item[p.name]
		if !ok {
			return validation("One or more parameter values were invalid: Missing the key %s in the item", p.name)
		}
		if v.Kind() != p.kind {
			return validation("One or more parameter values were invalid: Type mismatch for key %s expected: %s actual: %s",
				p.name, p.kind, v.Kind())
		}
	}
	return nil
}

// matchKey refuses a Key parameter that is not exactly the table's key.
func (k *keySchema) matchKey(key attr.Item) error {
	parts := k.parts()
	mismatch := len(key) != len(parts)
	for _, p := range parts {
		v, ok := key[p.name]
		mismatch = mismatch || !ok || v.Kind() != p.kind
	}
	if mismatch {
		return validation("The provided key element does not match the schema")
	}
	return nil
}

// checkUpdate refuses an update that names a key attribute: a key never changes.
func (k *keySchema) checkUpdate(u *expr.Update) error {
	for _, path := range u.Paths() {
		if name := path[0].Name; k.has(name) {
			return validation("One or more parameter values were invalid: Cannot update attribute %s. "+
				"This attribute is part of the key", name)
		}
	}
	return nil
}

func (k *keySchema) checkSizes(item attr.Item) error {
	for i, p := range k.parts() {
		if err := p.checkSize(item[p.name], i == 1); err != nil {
			return err
		}
	}
	return nil
}

// checkSize refuses a value that is empty or too long for a partition or sort key.
func (p *keyPart) checkSize(v attr.Value, isSort bool) error {
	size := v.Size()
	switch {
	case size == 0 && p.kind != attr.KindN:
		return validation("One or more parameter values are not valid. The AttributeValue for a key attribute "+
			"cannot contain an empty %s value. Key: %s", kindWord(p.kind), p.name)
	case !isSort && size > maxPartitionKey:
		return validation("One or more parameter values were invalid: Size of hashkey has exceeded "+
			"the maximum size limit of%d bytes", maxPartitionKey)
	case isSort && size > maxSortKey:
		return validation("One or more parameter values were invalid: Aggregated size of all range keys has exceeded "+
			"the size limit of %d bytes", maxSortKey)
	}
	return nil
}

func kindWord(k attr.Kind) string {
	if k == attr.KindB {
		return "binary"
	}
	return "string"
}
