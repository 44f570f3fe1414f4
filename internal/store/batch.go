package store

import (
	"context"
	"fmt"
	"slices"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/sourcegraph/conc/pool"

	"github.com/tidegate/tidegate/internal/table"
	"github.com/tidegate/tidegate/pkg/keys"
)

const (
	// parallelQueries bounds the queries of a request that run at once: the 16
	// partitions of a namespace take two round trips.
	parallelQueries = 8
	// batchKeys is DynamoDB's bound of the keys in a BatchGetItem.
	batchKeys = 100
	// deleteKeys is DynamoDB's bound of the writes in a BatchWriteItem.
	deleteKeys = 25
	// deleteAttempts bounds the repeats of writes that DynamoDB leaves unprocessed.
	deleteAttempts = 6
)

// BatchRead reads items consistently, with a request for each 100 keys. It repeats
// unprocessed keys until ctx ends. Missing items are left out, and the order is not
// that of the keys. The keys must be distinct.
func BatchRead(ctx context.Context, client *dynamodb.Client, tableName string, wanted []keys.Key) ([]table.Item, error) {
	items := make([]table.Item, 0, len(wanted))
	for chunk := range slices.Chunk(wanted, batchKeys) {
		next := batchInput(tableName, chunk)
		for attempt := 0; next != nil; attempt++ {
			out, err := client.BatchGetItem(ctx, next)
			if err != nil {
				return nil, fmt.Errorf("read %d items of table %s: %w", len(chunk), tableName, err)
			}
			items = append(items, out.Responses[tableName]...)
			next = nil
			if len(out.UnprocessedKeys) > 0 {
				next = &dynamodb.BatchGetItemInput{RequestItems: out.UnprocessedKeys}
				if err := Pause(ctx, attempt); err != nil {
					return nil, fmt.Errorf("read %d items of table %s: some are still unprocessed: %w", len(chunk), tableName, err)
				}
			}
		}
	}
	return items, nil
}

// DeleteKeys deletes items, with a request for each 25 keys. The keys must be
// distinct; missing items are no error. It repeats unprocessed keys a few times;
// left is the number of keys that remain.
func DeleteKeys(ctx context.Context, client *dynamodb.Client, tableName string, unwanted []keys.Key) (left int, err error) {
	for chunk := range slices.Chunk(unwanted, deleteKeys) {
		next := make([]types.WriteRequest, len(chunk))
		for i, k := range chunk {
			next[i].DeleteRequest = &types.DeleteRequest{Key: table.KeyItem(k)}
		}
		for attempt := 0; len(next) > 0; attempt++ {
			if attempt == deleteAttempts {
				left += len(next)
				break
			}
			if attempt > 0 {
				if err := Pause(ctx, attempt); err != nil {
					return 0, fmt.Errorf("delete %d items of table %s: %w", len(next), tableName, err)
				}
			}
			out, err := client.BatchWriteItem(ctx, &dynamodb.BatchWriteItemInput{
				RequestItems: map[string][]types.WriteRequest{tableName: next},
			})
			if err != nil {
				return 0, fmt.Errorf("delete %d items of table %s: %w", len(next), tableName, err)
			}
			next = out.UnprocessedItems[tableName]
		}
	}
	return left, nil
}

func batchInput(tableName string, wanted []keys.Key) *dynamodb.BatchGetItemInput {
	asked := make([]table.Item, len(wanted))
	for i, k := range wanted {
		asked[i] = table.KeyItem(k)
	}
	consistent := true
	return &dynamodb.BatchGetItemInput{
		RequestItems: map[string]types.KeysAndAttributes{tableName: {Keys: asked, ConsistentRead: &consistent}},
	}
}

// QueryAll runs queries in parallel and returns their pages in the order of the
// queries. The first error cancels the other queries.
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
