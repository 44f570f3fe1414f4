package table

import (
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"

	"github.com/tidegate/tidegate/pkg/keys"
)

// QueryInput reads the partition of a query from the table (index 0,
// consistently) or from global secondary index n.
func QueryInput(table string, index int, q keys.Query) *dynamodb.QueryInput {
	pk, sk := attrPK, attrSK
	if index > 0 {
		pk, sk = indexAttributes(index)
	}
	e := newExpression(2)
	e.requireEqual(pk, text(q.PK))
	switch {
	case q.SKTo != "":
		e.require(e.name(sk), " BETWEEN ", e.value(text(q.SKFrom)), " AND ", e.value(text(q.SKTo)))
	case q.SKPrefix != "":
		e.require("begins_with(", e.name(sk), ", ", e.value(text(q.SKPrefix)), ")")
	}
	in := &dynamodb.QueryInput{
		TableName:                 &table,
		KeyConditionExpression:    e.conditions(),
		ExpressionAttributeNames:  e.names,
		ExpressionAttributeValues: e.values,
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
