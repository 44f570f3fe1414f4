package table

import (
	"fmt"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/tidegate/tidegate/pkg/keys"
)

const (
	attrName     = "name"
	attrMetadata = "metadata"
	attrVersion  = "version"
)

// Entity is the content of an entity item: who is limited.
type Entity struct {
	Key      keys.Entity
	Name     string            // for people
	Parent   string            // entity id, empty for none
	Cascade  bool              // an acquire also spends from Parent
	Metadata map[string]string // for people; nil for none
	Version  int64             // counts the changes
}

// EncodeEntity is the whole item, index keys included.
func EncodeEntity(e *Entity) Item {
	key := e.Key.Key()
	item := Item{attrPK: text(key.PK), attrSK: text(key.SK), attrVersion: number(e.Version)}
	if e.Name != "" {
		item[attrName] = text(e.Name)
	}
	if e.Cascade {
		item[attrCascade] = boolean(true)
	}
	if len(e.Metadata) > 0 {
		m := make(Item, len(e.Metadata))
		for k, v := range e.Metadata {
			m[k] = text(v)
		}
		item[attrMetadata] = &types.AttributeValueMemberM{Value: m}
	}
	if e.Parent == "" {
		putIndexes(item, e.Key.Indexes())
	} else {
		item[attrParent] = text(e.Parent)
		putIndexes(item, e.Key.IndexesUnder(e.Parent))
	}
	return item
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
		Key:      key,
		Name:     d.text(attrName),
		Parent:   d.text(attrParent),
		Cascade:  d.boolean(attrCascade),
		Metadata: d.texts(attrMetadata),
		Version:  d.optional(attrVersion),
	}
	if d.err != nil {
		return nil, fmt.Errorf("%w: entity %s: %w", ErrDamaged, key.ID, d.err)
	}
	return e, nil
}

// texts reads a map of strings, nil where the attribute is missing.
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
