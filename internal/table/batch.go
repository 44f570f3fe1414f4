package table

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	smithytime "github.com/aws/smithy-go/time"

	"github.com/tidegate/tidegate/pkg/keys"
)

const (
	// batchKeys is how many keys DynamoDB takes in one BatchGetItem.
	batchKeys = 100
	// deleteKeys is how many writes it takes in one BatchWriteItem.
	deleteKeys = 25
	// deleteAttempts is how often a write is asked for that is left unprocessed.
	deleteAttempts = 6

	minPause = 5 * time.Millisecond
	maxPause = 200 * time.Millisecond
)

// BatchRead reads items consistently, in one request for each 100 keys. Keys
// that DynamoDB leaves unprocessed are asked for again until ctx ends. Items
// that are not there are left out, and the order is not that of the keys, which
// must be distinct.
func BatchRead(ctx context.Context, client *dynamodb.Client, table string, wanted []keys.Key) ([]Item, error) {
	items := make([]Item, 0, len(wanted))
	for chunk := range slices.Chunk(wanted, batchKeys) {
		next := batchInput(table, chunk)
		for attempt := 0; next != nil; attempt++ {
			out, err := client.BatchGetItem(ctx, next)
			if err != nil {
				return nil, fmt.Errorf("read %d items of table %s: %w", len(chunk), table, err)
			}
			items = append(items, out.Responses[table]...)
			next = nil
			if len(out.UnprocessedKeys) > 0 {
				next = &dynamodb.BatchGetItemInput{RequestItems: out.UnprocessedKeys}
				if err := Pause(ctx, attempt); err != nil {
					return nil, fmt.Errorf("read %d items of table %s: some are still unprocessed: %w", len(chunk), table, err)
				}
			}
		}
	}
	return items, nil
}

// DeleteKeys takes items away, in one request for each 25 keys, which must be
// distinct. Keys that are not there are no error. What DynamoDB leaves
// unprocessed is asked for again a few times; left says how many keys were still
// there when it gave up.
func DeleteKeys(ctx context.Context, client *dynamodb.Client, table string, unwanted []keys.Key) (left int, err error) {
	for chunk := range slices.Chunk(unwanted, deleteKeys) {
		next := make([]types.WriteRequest, len(chunk))
		for i, k := range chunk {
			next[i].DeleteRequest = &types.DeleteRequest{Key: KeyItem(k)}
		}
		for attempt := 0; len(next) > 0; attempt++ {
			if attempt == deleteAttempts {
				left += len(next)
				break
			}
			if attempt > 0 {
				if err := Pause(ctx, attempt); err != nil {
					return 0, fmt.Errorf("delete %d items of table %s: %w", len(next), table, err)
				}
			}
			out, err := client.BatchWriteItem(ctx, &dynamodb.BatchWriteItemInput{
				RequestItems: map[string][]types.WriteRequest{table: next},
			})
			if err != nil {
				return 0, fmt.Errorf("delete %d items of table %s: %w", len(next), table, err)
			}
			next = out.UnprocessedItems[table]
		}
	}
	return left, nil
}

func batchInput(table string, wanted []keys.Key) *dynamodb.BatchGetItemInput {
	asked := make([]Item, len(wanted))
	for i, k := range wanted {
		asked[i] = KeyItem(k)
	}
	consistent := true
	return &dynamodb.BatchGetItemInput{
		RequestItems: map[string]types.KeysAndAttributes{table: {Keys: asked, ConsistentRead: &consistent}},
	}
}

// Pause waits before an attempt at the store is repeated: a random part of 5 ms
// doubled by every attempt (the first is 0), at most 200 ms. The error is the
// context's.
func Pause(ctx context.Context, attempt int) error {
	longest := min(maxPause, minPause<<min(attempt, 10))
	return smithytime.SleepWithContext(ctx, time.Duration(1+rand.Int64N(int64(longest))))
}

// StartAfter makes a query go on behind an item that an earlier one returned.
// It reports false, and changes nothing, where the query does not list the item.
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

// rowOf is the key of an item's row in an index, nil where it has none. Which
// entity is whose child its key does not say, but the query does.
func rowOf(item keys.Item, index int, q keys.Query) *keys.Key {
	in := item.Indexes()
	if e, ok := item.(keys.Entity); ok && index == 1 {
		if parent, ok := keys.ParentOf(q); ok {
			in = e.IndexesUnder(parent)
		}
	}
	return []*keys.Key{in.GSI1, in.GSI2, in.GSI3, in.GSI4}[index-1]
}
