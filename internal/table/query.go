package table

import (
	"context"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/sourcegraph/conc/pool"

	"github.com/tidegate/tidegate/pkg/keys"
)

// IndexLag bounds how far a global secondary index is expected to be behind its table.
// The usual lag is milliseconds.
const IndexLag = time.Second

// parallelQueries is how many queries of one request run at once: a namespace's 16
// partitions take two round trips.
const parallelQueries = 8

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

// QueryAll runs queries side by side and returns their pages in the order of the queries.
// The first error ends the others.
func QueryAll(ctx context.Context, client *dynamodb.Client, queries []*dynamodb.QueryInput) ([]*dynamodb.QueryOutput, error) {
	pages := make([]*dynamodb.QueryOutput, len(queries))
	p := pool.New().WithContext(ctx).WithMaxGoroutines(parallelQueries).WithCancelOnError().WithFirstError()
	for i, in := range queries {
		p.Go(func(ctx context.Context) (err error) {
			pages[i], err = client.Query(ctx, in)
			return err
		})
	}
	if err := p.Wait(); err != nil {
		return nil, err
	}
	return pages, nil
}
