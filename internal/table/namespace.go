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
)

// SchemaVersion is the version of the data model that this release writes.
const SchemaVersion = 1

// Namespace is an entry of the registry: the forward item gives the id of a
// name, the reverse item the name of an id.
type Namespace struct{ Name, ID string }

// CreateNamespaceInput makes both entries of a namespace, and says in the
// namespace which schema it is written in. It is refused as a whole where the
// name or the id is taken.
func CreateNamespaceInput(table string, n Namespace) *dynamodb.TransactWriteItemsInput {
	forward := KeyItem(keys.NamespaceName{Name: n.Name}.Key())
	forward[attrNamespaceID] = text(n.ID)
	reverse := KeyItem(keys.NamespaceID{ID: n.ID}.Key())
	reverse[attrName] = text(n.Name)
	in := &dynamodb.TransactWriteItemsInput{}
	for _, item := range []Item{forward, reverse, EncodeVersion(keys.Version{Namespace: n.ID}, SchemaVersion)} {
		e := newExpression(1)
		e.requireAbsent(attrPK)
		in.TransactItems = append(in.TransactItems, types.TransactWriteItem{Put: &types.Put{
			TableName:                &table,
			Item:                     item,
			ConditionExpression:      e.conditions(),
			ExpressionAttributeNames: e.names,
		}})
	}
	return in
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
		n = Namespace{Name: key.Name, ID: d.text(attrNamespaceID)}
	case keys.NamespaceID:
		n = Namespace{Name: d.text(attrName), ID: key.ID}
	}
	if d.err != nil || n.Name == "" || !keys.ValidNamespaceID(n.ID) {
		return Namespace{}, fmt.Errorf("%w: %s %s is no complete namespace", ErrDamaged, key.Key().PK, key.Key().SK)
	}
	return n, nil
}

// EncodeVersion is the record of which schema a namespace, or under the
// registry the table, is written in.
func EncodeVersion(key keys.Version, schema int64) Item {
	item := KeyItem(key.Key())
	item[attrSchema] = number(schema)
	putIndexes(item, key.Indexes())
	return item
}

// DecodeVersion reads a record of EncodeVersion; the error is ErrDamaged.
func DecodeVersion(item Item) (schema int64, err error) {
	d := decoder{item: item}
	if schema = d.number(attrSchema); d.err != nil {
		return 0, fmt.Errorf("%w: schema version: %w", ErrDamaged, d.err)
	}
	return schema, nil
}
