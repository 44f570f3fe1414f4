package engine_test

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"sync"
	"testing"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	streamtypes "github.com/aws/aws-sdk-go-v2/service/dynamodbstreams/types"
	"github.com/stretchr/testify/require"
)

// TestConformance runs every check on both ways to reach an engine.
func TestConformance(t *testing.T) {
	for name, open := range map[string]func(*testing.T) backend{"in process": inProcess, "loopback": loopback} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			suite(t, open(t))
		})
	}
}

// suite is what any DynamoDB-compatible back end must pass through the unmodified
// SDK client, whose own checks come first; TestRefusals is what gets past them.
//
//   - tables: create with indexes of all projections and a stream, describe, list by
//     pages, create twice, missing ones, waiter, delete, deletion protection, an
//     index added and removed, the stream switched off and on, time to live and
//     expiry, definitions that are refused, ARNs for names, tags, continuous backups.
//   - items: every type, numbers in their one form, nested projections with aliases,
//     put and delete under conditions with the old item returned on success and on
//     failure.
//   - updates: ADD, SET, REMOVE, DELETE alone and together, arithmetic,
//     if_not_exists, list_append, nested paths, all ReturnValues, all condition
//     operators and functions, 38 digits, 64 writers of one item with and without a
//     limit that they must not pass.
//   - batches: writes, deletions and reads, 25, 100 and 16 MB, duplicates.
//   - queries: all key conditions, both directions, pages by count and by 1 MB,
//     filters, counts, index projections in numeric order, sparse indexes, moved and
//     removed index keys, pages of indexes, scans of tables and indexes, by segments too.
//   - transactions: all actions, cancellation whole with reasons in order and items,
//     idempotency tokens, one item twice, reads, concurrent transfers.
//   - capacity: rounding, consistent and other reads, larger of old and new item,
//     per index, doubled by transactions.
//   - validation: the commonest wrong requests.
//   - streams: many writers at once. TestStreams has the rest: descriptions, all
//     views, order and images, writes of all operations, what changes nothing,
//     iterators of all types, old and expired ones, pages, expiry's identity.
//
// Left out, as in the engine: local indexes, PartiQL, legacy parameters.
func suite(t *testing.T, b backend) {
	t.Helper()
	groups := checkGroups()
	for _, group := range slices.Sorted(maps.Keys(groups)) {
		t.Run(group, func(t *testing.T) {
			for _, name := range slices.Sorted(maps.Keys(groups[group])) {
				t.Run(name, func(t *testing.T) { groups[group][name](t, b.table(t)) })
			}
		})
	}
}

func checkGroups() map[string]map[string]func(*testing.T, *table) {
	return map[string]map[string]func(*testing.T, *table){
		"tables":       tableChecks(),
		"items":        itemChecks(),
		"updates":      updateChecks(),
		"batches":      batchChecks(),
		"queries":      queryChecks(),
		"transactions": transactionChecks(),
		"capacity":     capacityChecks(),
		"validation":   validationChecks(),
		"streams":      {"many writers": checkManyWriters},
	}
}

// traps are the mistakes seen in other engines, and the checks that keep this one
// from them.
func traps() map[string][]func(*testing.T) {
	on := func(group, name string) func(*testing.T) {
		return func(t *testing.T) {
			check, ok := checkGroups()[group][name]
			require.True(t, ok, "no check %s/%s", group, name)
			check(t, inProcess(t).table(t))
		}
	}
	table := func(check func(*testing.T, *table)) func(*testing.T) {
		return func(t *testing.T) { check(t, inProcess(t).table(t)) }
	}
	stream := func(check func(*testing.T, *streamed)) func(*testing.T) {
		return func(t *testing.T) { b := inProcess(t); check(t, b.table(t).streamed()) }
	}
	return map[string][]func(*testing.T){
		"float numbers": {on("updates", "38 digits"), on("items", "numbers are normalised")},
		"a write that changes nothing gives no stream record": {stream(checkNothingChanged), table(checkNoChange)},
		"a write that changes nothing charges no index":       {table(checkNoChange)},
		"an index is charged only when what it shows changed": {table(checkIndexCharges)},
		"an index is charged twice when its key moves":        {table(checkIndexCharges)},
		"LastEvaluatedKey of an index has both keys":          {table(checkIndexPages)},
		"ALL_OLD is a copy":                                      {table(checkOldIsACopy), TestRepliesKeepTheirImages},
		"cancellation reasons are in order":                      {on("transactions", "cancelled whole, reasons in order")},
		"a replayed ClientRequestToken does not apply again":     {on("transactions", "a replayed token applies nothing"), stream(checkTransactions)},
		"a ClientRequestToken of another request is refused":     {on("transactions", "a replayed token applies nothing")},
		"a ClientRequestToken is forgotten after ten minutes":    {on("transactions", "a replayed token applies nothing")},
		"an old iterator re-reads the same page":                 {stream(checkOldIterators)},
		"an item is looked at again before expiry deletes it":    {TestExpiryLooksAgain},
		"an update that only removes makes no item":              {on("updates", "an update that only removes makes no item")},
		"nested return values are only the part that is touched": {table(checkNestedReturns)},
	}
}

func TestTraps(t *testing.T) {
	for name, checks := range traps() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for _, check := range checks {
				check(t)
			}
		})
	}
}

// checkNoChange: what is written as it is already costs the table, not its
// indexes, and makes no record, whichever operation writes it.
func checkNoChange(t *testing.T, x *table) {
	same := item("p", "1", "g1", text("g"), "g1n", num(1), "extra", text("e"), "s", texts("b", "a"), "m", nested(attrs{"l": list(num("1.50"))}))
	x.put(same)
	again := item("p", "1", "g1", text("g"), "g1n", num("1.0"), "extra", text("e"), "s", texts("a", "b"), "m", nested(attrs{"l": list(num("1.5"))}))
	put := &types.Put{TableName: x.name, Item: again}
	gone := &types.Delete{TableName: x.name, Key: key("p", "none")}
	const indexes = types.ReturnConsumedCapacityIndexes
	for what, write := range map[string]func() (*types.ConsumedCapacity, error){
		"put": func() (*types.ConsumedCapacity, error) {
			out, err := x.db.PutItem(t.Context(), &dynamodb.PutItemInput{TableName: x.name, Item: again, ReturnConsumedCapacity: indexes})
			return out.ConsumedCapacity, err
		},
		"update": func() (*types.ConsumedCapacity, error) {
			out, err := x.tryUpdate("p", "1", change{
				update: "SET g1 = :g, m.l[0] = :n REMOVE spare ADD g1n :z DELETE s :s", capacity: indexes,
				values: attrs{":g": text("g"), ":n": num("1.5"), ":z": num(0), ":s": texts("z")},
			})
			return out.ConsumedCapacity, err
		},
		"delete": func() (*types.ConsumedCapacity, error) {
			out, err := x.db.DeleteItem(t.Context(), &dynamodb.DeleteItemInput{TableName: x.name, Key: gone.Key, ReturnConsumedCapacity: indexes})
			return out.ConsumedCapacity, err
		},
		"batch": func() (*types.ConsumedCapacity, error) {
			out, err := x.db.BatchWriteItem(t.Context(), &dynamodb.BatchWriteItemInput{
				RequestItems:           map[string][]types.WriteRequest{*x.name: {{PutRequest: &types.PutRequest{Item: again}}}},
				ReturnConsumedCapacity: indexes,
			})
			require.NoError(t, err)
			return &out.ConsumedCapacity[0], nil
		},
		"transaction": func() (*types.ConsumedCapacity, error) {
			out, err := x.db.TransactWriteItems(t.Context(), &dynamodb.TransactWriteItemsInput{
				TransactItems:          []types.TransactWriteItem{{Put: put}, {Delete: gone}},
				ReturnConsumedCapacity: indexes,
			})
			require.NoError(t, err)
			return &out.ConsumedCapacity[0], nil
		},
	} {
		used, err := write()
		require.NoError(t, err, what)
		require.Empty(t, used.GlobalSecondaryIndexes, what)
		require.GreaterOrEqual(t, units(used), 1.0, what)
		require.InDelta(t, units(used), *used.Table.CapacityUnits, 0, what)
	}
	s := x.streamed()
	require.Equal(t, []string{"INSERT p/1 ->-"}, shorts(s.all(t, x.streamARN())))
}

// checkOldIsACopy: an old item that was returned does not follow later writes.
func checkOldIsACopy(t *testing.T, x *table) {
	first := item("p", "1", "m", nested(attrs{"n": num(1)}), "l", list(num(1)), "s", texts("a"))
	x.put(first)
	update := func() attrs {
		return x.update("p", "1", change{
			update: "SET m.n = m.n + :n, l[0] = :n ADD s :s", values: attrs{":n": num(5), ":s": texts("b")},
			returns: types.ReturnValueAllOld,
		}).Attributes
	}
	old := update()
	require.Equal(t, item("p", "1", "m", nested(attrs{"n": num(6)}), "l", list(num(5)), "s", texts("a", "b")), update())
	require.Equal(t, first, old)
}

// checkManyWriters: each change of many writers is in the stream once, those of
// one item in their order.
func checkManyWriters(t *testing.T, x *table) {
	const writers, writes, items = 30, 30, 10
	var all sync.WaitGroup
	for w := range writers {
		all.Go(func() {
			for range writes {
				x.update("k", strconv.Itoa(w%items), change{update: "ADD v :one", values: attrs{":one": num(1)}})
			}
		})
	}
	all.Wait()
	s := x.streamed()
	records := s.all(t, x.streamARN())
	require.Len(t, records, writers*writes)
	last := map[string]int{}
	for _, r := range records {
		sk := r.Dynamodb.Keys["sk"].(*streamtypes.AttributeValueMemberS).Value
		last[sk]++
		require.Equal(t, fmt.Sprint(last[sk]), r.Dynamodb.NewImage["v"].(*streamtypes.AttributeValueMemberN).Value, "item %s", sk)
	}
}
