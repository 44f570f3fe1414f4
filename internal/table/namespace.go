package table

import (
	"fmt"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/tidegate/tidegate/pkg/keys"
)

const (
	attrNamespaceID = "namespace_id"
	attrSchema      = "schema_version"
	attrDeleted     = "deleted_ms"
	attrDeletedBy   = "deleted_by"
	attrPurge       = "purge_ms"
)

// SchemaVersion is the version of the data model that this release writes.
const SchemaVersion = 1

// Namespace is an entry of the registry. The forward item maps a name to its id and
// state, the reverse item maps an id to its name. Times are unix milliseconds; 0
// means that the event did not happen, or that the creation is not known.
type Namespace struct {
	Name, ID  string
	CreatedMs int64
	DeletedMs int64
	DeletedBy string // who deleted it
	PurgeMs   int64  // when its purge began: from then on nothing brings it back
	Version   int64  // how often the entry was changed since it was made
}

// Deleted reports whether requests in the namespace are refused.
func (n *Namespace) Deleted() bool { return n.DeletedMs != 0 }

// CreateNamespaceItems returns the writes that make both entries of a namespace and
// mark the namespace with its schema. In a transaction, they are refused as a whole
// if the name or the id is taken.
func CreateNamespaceItems(table string, n Namespace) []types.TransactWriteItem {
	forward := KeyItem(keys.NamespaceName{Name: n.Name}.Key())
	forward[attrNamespaceID] = text(n.ID)
	if n.CreatedMs != 0 {
		forward[attrCreated] = number(n.CreatedMs)
	}
	reverse := KeyItem(keys.NamespaceID{ID: n.ID}.Key())
	reverse[attrName] = text(n.Name)
	var writes []types.TransactWriteItem
	for _, item := range []Item{forward, reverse, EncodeVersion(keys.Version{Namespace: n.ID}, SchemaVersion)} {
		c := newCondition(1)
		c.requireAbsent(attrPK)
		writes = append(writes, types.TransactWriteItem{Put: &types.Put{
			TableName:                &table,
			Item:                     item,
			ConditionExpression:      c.conditions(),
			ExpressionAttributeNames: c.names,
		}})
	}
	return writes
}

// ChangeNamespaceItem returns the write that changes the state of the forward
// entry: deleted, recovered, or purge begun. It is refused if the entry has
// changed.
func ChangeNamespaceItem(table string, known, wanted Namespace) types.TransactWriteItem {
	e := newExpression(8)
	e.requireNamespace(known)
	e.set(attrVersion, number(wanted.Version))
	for _, part := range []struct {
		attribute string
		present   bool
		value     types.AttributeValue
	}{
		{attrDeleted, wanted.DeletedMs != 0, number(wanted.DeletedMs)},
		{attrDeletedBy, wanted.DeletedBy != "", text(wanted.DeletedBy)},
		{attrPurge, wanted.PurgeMs != 0, number(wanted.PurgeMs)},
	} {
		if !part.present {
			e.remove(part.attribute)
			continue
		}
		e.set(part.attribute, part.value)
	}
	return types.TransactWriteItem{Update: &types.Update{
		TableName:                 &table,
		Key:                       KeyItem(keys.NamespaceName{Name: known.Name}.Key()),
		UpdateExpression:          e.update(),
		ConditionExpression:       e.conditions(),
		ExpressionAttributeNames:  e.names,
		ExpressionAttributeValues: e.values,
	}}
}

// RemoveNamespaceItems returns the writes that delete both entries of a purged
// namespace, so that its name is free. In a transaction, they are refused as a
// whole if the forward entry is not as known.
func RemoveNamespaceItems(table string, known Namespace) []types.TransactWriteItem {
	c := newCondition(4)
	c.requireNamespace(known)
	return []types.TransactWriteItem{
		{Delete: &types.Delete{
			TableName:                 &table,
			Key:                       KeyItem(keys.NamespaceName{Name: known.Name}.Key()),
			ConditionExpression:       c.conditions(),
			ExpressionAttributeNames:  c.names,
			ExpressionAttributeValues: c.values,
		}},
		{Delete: &types.Delete{
			TableName: &table,
			Key:       KeyItem(keys.NamespaceID{ID: known.ID}.Key()),
		}},
	}
}

// requireNamespace requires that a forward entry is as known.
func (c *condition) requireNamespace(known Namespace) {
	c.requireEqual(attrNamespaceID, text(known.ID))
	if known.Version == 0 {
		c.requireAbsent(attrVersion)
	} else {
		c.requireEqual(attrVersion, number(known.Version))
	}
}

// DecodeNamespace reads a forward or a reverse item; the error is ErrDamaged.
func DecodeNamespace(item Item) (Namespace, error) {
	key, err := ItemKey(item)
	if err != nil {
		return Namespace{}, err
	}
	d := decoder{item: item}
	var n Namespace
	switch key := key.(type) {
	case keys.NamespaceName:
		n = Namespace{
			Name:      key.Name,
			ID:        d.text(attrNamespaceID),
			CreatedMs: d.optional(attrCreated),
			DeletedMs: d.optional(attrDeleted),
			DeletedBy: d.text(attrDeletedBy),
			PurgeMs:   d.optional(attrPurge),
			Version:   d.optional(attrVersion),
		}
	case keys.NamespaceID:
		n = Namespace{Name: d.text(attrName), ID: key.ID}
	}
	if d.err != nil || n.Name == "" || !keys.ValidNamespaceID(n.ID) {
		return Namespace{}, fmt.Errorf("%w: %s %s is no complete namespace", ErrDamaged, key.Key().PK, key.Key().SK)
	}
	return n, nil
}

// EncodeVersion returns the record of the schema of a namespace or, with the
// registry's key, of the table.
func EncodeVersion(key keys.Version, schema int64) Item {
	item := KeyItem(key.Key())
	item[attrSchema] = number(schema)
	putIndexes(item, key.Indexes())
	return item
}

// CreateVersionInput writes the record of this release's schema. It is refused if a
// record exists.
func CreateVersionInput(table string, key keys.Version) *dynamodb.PutItemInput {
	c := newCondition(1)
	c.requireAbsent(attrPK)
	return &dynamodb.PutItemInput{
		TableName:                &table,
		Item:                     EncodeVersion(key, SchemaVersion),
		ConditionExpression:      c.conditions(),
		ExpressionAttributeNames: c.names,
	}
}

// DecodeVersion reads a record of EncodeVersion; the error is ErrDamaged.
func DecodeVersion(item Item) (schema int64, err error) {
	d := decoder{item: item}
	if schema = d.number(attrSchema); d.err != nil {
		return 0, fmt.Errorf("%w: schema version: %w", ErrDamaged, d.err)
	}
	return schema, nil
}
