package table

import (
	"fmt"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/tidegate/tidegate/pkg/api"
	"github.com/tidegate/tidegate/pkg/keys"
)

const (
	attrName     = "name"
	attrMetadata = "metadata"
	attrVersion  = "version"
	attrBelow    = "below"
)

// Entity is the content of an entity item.
type Entity struct {
	Key      keys.Entity
	Name     string            // for people
	Parent   string            // entity id, empty for none; its item is there
	Cascade  bool              // an acquire also spends from Parent
	Metadata map[string]string // for people; nil for none
	// Version counts the changes, from 1. Version 0 is a stub: the entity does not
	// exist, but other entities have it as their parent.
	Version int64
	// Below counts the descendants by level: children, their children, and so on.
	Below     [api.MaxLevels - 1]int64
	LastWrite string // nonce of the last writer, of Below too
}

// EncodeEntity returns the whole item, index keys included.
func EncodeEntity(e *Entity) Item {
	item := KeyItem(e.Key.Key())
	for _, a := range e.attributes() {
		if a.value != nil {
			item[a.name] = a.value
		}
	}
	putIndexes(item, e.indexes())
	return item
}

func (e *Entity) indexes() keys.Indexes {
	if e.Parent == "" {
		return e.Key.Indexes()
	}
	return e.Key.IndexesUnder(e.Parent)
}

// attribute is an attribute of an item; its value is nil if the item lacks it.
type attribute struct {
	name  string
	value types.AttributeValue
}

// attributes returns all attributes except the keys.
func (e *Entity) attributes() []attribute {
	all := []attribute{
		{attrVersion, number(e.Version)},
		{attrName, optionalText(e.Name)},
		{attrParent, optionalText(e.Parent)},
		{attrLastWrite, optionalText(e.LastWrite)},
		{name: attrCascade},
		{name: attrMetadata},
		{name: attrBelow},
	}
	cascade, metadata, below := &all[4].value, &all[5].value, &all[6].value
	if e.Cascade {
		*cascade = boolean(true)
	}
	if len(e.Metadata) > 0 {
		m := make(Item, len(e.Metadata))
		for k, v := range e.Metadata {
			m[k] = text(v)
		}
		*metadata = &types.AttributeValueMemberM{Value: m}
	}
	if e.Below != ([len(e.Below)]int64{}) {
		counts := make([]types.AttributeValue, len(e.Below))
		for i, n := range e.Below {
			counts[i] = number(n)
		}
		*below = &types.AttributeValueMemberL{Value: counts}
	}
	return all
}

// optionalText returns nil for an empty string.
func optionalText(s string) types.AttributeValue {
	if s == "" {
		return nil
	}
	return text(s)
}

// DecodeEntity reads an entity item; the error is ErrDamaged.
func DecodeEntity(item Item) (*Entity, error) {
	parsed, err := ItemKey(item)
	if err != nil {
		return nil, err
	}
	key, ok := parsed.(keys.Entity)
	if !ok {
		return nil, fmt.Errorf("%w: %s %s is no entity", ErrDamaged, parsed.Key().PK, parsed.Key().SK)
	}
	d := decoder{item: item}
	e := &Entity{
		Key:       key,
		Name:      d.text(attrName),
		Parent:    d.text(attrParent),
		Cascade:   d.boolean(attrCascade),
		Metadata:  d.texts(attrMetadata),
		Version:   d.optional(attrVersion),
		LastWrite: d.text(attrLastWrite),
	}
	d.counts(attrBelow, e.Below[:])
	if d.err != nil {
		return nil, fmt.Errorf("%w: entity %s: %w", ErrDamaged, key.ID, d.err)
	}
	return e, nil
}

// SetEntity is the form that replaces an entity item and keeps attributes of later
// releases. It is refused if the item was written since it was read.
type SetEntity struct {
	Known *Entity // as it was read; nil: there was none
	After *Entity // LastWrite is this write's nonce
}

// Write returns the write for a transaction.
func (s *SetEntity) Write(table string) types.TransactWriteItem {
	e := newExpression(12)
	e.requireEntity(s.Known)
	for _, a := range s.After.attributes() {
		if a.value != nil {
			e.set(a.name, a.value)
		} else if s.Known != nil {
			e.remove(a.name)
		}
	}
	in := s.After.indexes()
	e.setIndexes(in)
	if s.Known != nil && in.GSI1 == nil {
		pk, sk := indexAttributes(1)
		e.remove(pk)
		e.remove(sk)
	}
	return types.TransactWriteItem{Update: &types.Update{
		TableName:                 &table,
		Key:                       KeyItem(s.After.Key.Key()),
		UpdateExpression:          e.update(),
		ConditionExpression:       e.conditions(),
		ExpressionAttributeNames:  e.names,
		ExpressionAttributeValues: e.values,
	}}
}

// DeleteEntityWrite deletes an entity item. It is refused if the item was written
// since it was read.
func DeleteEntityWrite(table string, known *Entity) types.TransactWriteItem {
	c := newCondition(2)
	c.requireEntity(known)
	return types.TransactWriteItem{Delete: &types.Delete{
		TableName:                 &table,
		Key:                       KeyItem(known.Key.Key()),
		ConditionExpression:       c.conditions(),
		ExpressionAttributeNames:  c.names,
		ExpressionAttributeValues: c.values,
	}}
}

// CheckEntityWrite writes nothing. It refuses its transaction if the item was
// written since it was read.
func CheckEntityWrite(table string, known *Entity) types.TransactWriteItem {
	c := newCondition(2)
	c.requireEntity(known)
	return types.TransactWriteItem{ConditionCheck: &types.ConditionCheck{
		TableName:                 &table,
		Key:                       KeyItem(known.Key.Key()),
		ConditionExpression:       c.conditions(),
		ExpressionAttributeNames:  c.names,
		ExpressionAttributeValues: c.values,
	}}
}

// requireEntity requires that an entity item is as it was read.
func (c *condition) requireEntity(known *Entity) {
	switch {
	case known == nil:
		c.requireAbsent(attrPK)
	case known.LastWrite == "": // written by hand
		c.requireEqual(attrVersion, number(known.Version))
		c.requireAbsent(attrLastWrite)
	default:
		c.requireEqual(attrLastWrite, text(known.LastWrite))
	}
}

// counts reads a list of whole numbers into n, up to the length of the shorter.
func (d *decoder) counts(attribute string, n []int64) {
	v, present := d.item[attribute]
	if !present {
		return
	}
	l, ok := v.(*types.AttributeValueMemberL)
	if !ok {
		d.fail(attribute, "a list")
		return
	}
	for i := range min(len(n), len(l.Value)) {
		inner := decoder{item: Item{attribute: l.Value[i]}}
		n[i] = inner.number(attribute)
		if inner.err != nil {
			d.fail(attribute, "a list of whole numbers")
		}
	}
}

// texts reads a map of strings; nil if the attribute is missing.
func (d *decoder) texts(attribute string) map[string]string {
	v, present := d.item[attribute]
	if !present {
		return nil
	}
	m, ok := v.(*types.AttributeValueMemberM)
	if !ok {
		d.fail(attribute, "a map")
		return nil
	}
	inner := decoder{item: m.Value}
	out := make(map[string]string, len(m.Value))
	for k := range m.Value {
		out[k] = inner.text(k)
	}
	if inner.err != nil {
		d.fail(attribute, "a map of strings")
	}
	return out
}
