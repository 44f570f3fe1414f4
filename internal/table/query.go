package table

import (
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"

	"github.com/tidegate/tidegate/pkg/keys"
)

// IndexLag bounds how far a global secondary index is expected to be behind its table.
// The usual lag is milliseconds.
const IndexLag = time.Second

// QueryInput reads the partition of a query from the table (index 0,
// consistently) or from global secondary index n.
func QueryInput(table string, index int, q keys.Query) *dynamodb.QueryInput {
	pk, sk := attrPK, attrSK
	if index > 0 {
		pk, sk = indexAttributes(index)
	}
	c := newCondition(2)
	c.requireEqual(pk, text(q.PK))
	switch {
	case q.SKTo != "":
		c.require(c.name(sk), " BETWEEN ", c.value(text(q.SKFrom)), " AND ", c.value(text(q.SKTo)))
	case q.SKPrefix != "":
		c.require("begins_with(", c.name(sk), ", ", c.value(text(q.SKPrefix)), ")")
	}
	in := &dynamodb.QueryInput{
		TableName:                 &table,
		KeyConditionExpression:    c.conditions(),
		ExpressionAttributeNames:  c.names,
		ExpressionAttributeValues: c.values,
	}
	if index > 0 {
		name := IndexName(index)
		in.IndexName = &name
	} else {
		consistent := true
		in.ConsistentRead = &consistent
	}
	return in
}

// StartAfter makes a query continue after an item that an earlier query returned.
// If the query does not list the item, it reports false and changes nothing.
func StartAfter(in *dynamodb.QueryInput, index int, q keys.Query, last keys.Item) bool {
	if !last.Valid() {
		return false
	}
	row := last.Key()
	start := KeyItem(row)
	if index > 0 {
		key := rowOf(last, index, q)
		if key == nil {
			return false
		}
		pk, sk := indexAttributes(index)
		row, start[pk], start[sk] = *key, text(key.PK), text(key.SK)
	}
	if !q.Lists(row) {
		return false
	}
	in.ExclusiveStartKey = start
	return true
}

// rowOf returns the key of an item's row in an index, or nil. The parent of an
// entity is not in its key; the query gives it.
func rowOf(item keys.Item, index int, q keys.Query) *keys.Key {
	in := item.Indexes()
	if e, ok := item.(keys.Entity); ok && index == 1 {
		if parent, ok := keys.ParentOf(q); ok {
			in = e.IndexesUnder(parent)
		}
	}
	return []*keys.Key{in.GSI1, in.GSI2, in.GSI3, in.GSI4}[index-1]
}
