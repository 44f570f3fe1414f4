package engine_test

import (
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/stretchr/testify/require"
)

func transactionChecks() map[string]func(*testing.T, *table) {
	return map[string]func(*testing.T, *table){
		"all four actions": func(t *testing.T, x *table) {
			x.put(item("t", "d"), item("t", "c", "ok", num(1)), item("t", "u", "cnt", num(1)))
			require.NoError(t, x.transact(
				types.TransactWriteItem{Put: &types.Put{TableName: x.name, Item: item("t", "p")}},
				x.add("t", "u", 1, "", nil),
				types.TransactWriteItem{Delete: &types.Delete{TableName: x.name, Key: key("t", "d")}},
				types.TransactWriteItem{ConditionCheck: &types.ConditionCheck{
					TableName: x.name, Key: key("t", "c"), ConditionExpression: aws.String("ok = :o"),
					ExpressionAttributeValues: attrs{":o": num(1)},
				}},
			))
			require.NotNil(t, x.get("t", "p"))
			require.Equal(t, "2", numberOf(x.get("t", "u")["cnt"]))
			require.Nil(t, x.get("t", "d"))
			require.Equal(t, item("t", "c", "ok", num(1)), x.get("t", "c"))
		},
		"cancelled whole, reasons in order": func(t *testing.T, x *table) {
			x.put(item("t", "u", "cnt", num(2)), item("t", "s", "cnt", text("no number")))
			err := x.transact(
				types.TransactWriteItem{Put: &types.Put{TableName: x.name, Item: item("t", "never")}},
				x.add("t", "u", 1, "cnt > :b", attrs{":b": num(100)}),
				x.add("t", "s", 1, "", nil),
				x.add("t", "absent", 1, "attribute_exists(pk)", nil),
			)
			var canceled *types.TransactionCanceledException
			require.ErrorAs(t, err, &canceled)
			codes := make([]string, len(canceled.CancellationReasons))
			for i, r := range canceled.CancellationReasons {
				codes[i] = aws.ToString(r.Code)
			}
			require.Equal(t, []string{"None", "ConditionalCheckFailed", "ValidationError", "ConditionalCheckFailed"}, codes)
			require.Equal(t, item("t", "u", "cnt", num(2)), canceled.CancellationReasons[1].Item)
			require.Nil(t, canceled.CancellationReasons[0].Item)
			require.Nil(t, canceled.CancellationReasons[3].Item, "there was none")
			require.Nil(t, x.get("t", "never"))
		},
		"a replayed token applies nothing": func(t *testing.T, x *table) {
			send := func(n int) (float64, error) {
				out, err := x.db.TransactWriteItems(t.Context(), &dynamodb.TransactWriteItemsInput{
					ClientRequestToken: x.name, ReturnConsumedCapacity: types.ReturnConsumedCapacityTotal,
					TransactItems: []types.TransactWriteItem{x.add("t", "idem", n, "attribute_not_exists(cnt) OR cnt < :z", attrs{":z": num(0)})},
				})
				if err != nil {
					return 0, err
				}
				return units(&out.ConsumedCapacity[0]), nil
			}
			_, err := send(1)
			require.NoError(t, err)
			_, err = send(1)
			require.NoError(t, err, "the condition would refuse it now, but it was done before")
			require.Equal(t, "1", numberOf(x.get("t", "idem")["cnt"]))
			_, err = send(7)
			requireCode(t, err, "IdempotentParameterMismatchException")
			x.backend.clock.Advance(10 * time.Minute)
			_, err = send(7)
			requireCode(t, err, "TransactionCanceledException")
		},
		"bad requests": func(t *testing.T, x *table) {
			put := types.TransactWriteItem{Put: &types.Put{TableName: x.name, Item: item("t", "dup")}}
			requireCode(t, x.transact(put, types.TransactWriteItem{
				Delete: &types.Delete{TableName: x.name, Key: key("t", "dup")},
			}), "ValidationException")
			requireCode(t, x.transact(types.TransactWriteItem{Put: put.Put, ConditionCheck: &types.ConditionCheck{
				TableName: x.name, Key: key("t", "c"), ConditionExpression: aws.String("attribute_exists(pk)"),
			}}), "ValidationException")
			many := make([]types.TransactWriteItem, 101)
			for i := range many {
				many[i] = x.add("many", fmt.Sprint(i), 1, "", nil)
			}
			require.NoError(t, x.transact(many[:100]...))
			requireCode(t, x.transact(many...), "ValidationException")
		},
		"at most 4 megabytes": func(t *testing.T, x *table) {
			var puts []types.TransactWriteItem
			for i := range 11 {
				puts = append(puts, types.TransactWriteItem{Put: &types.Put{
					TableName: x.name, Item: item("big", fmt.Sprint(i), "d", text(strings.Repeat("x", 390_000))),
				}})
			}
			requireCode(t, x.transact(puts...), "ValidationException")
			require.NoError(t, x.transact(puts[:10]...))
		},
		"get": func(t *testing.T, x *table) {
			x.put(item("t", "u", "a", num(1), "b", num(2)))
			out, err := x.db.TransactGetItems(t.Context(), &dynamodb.TransactGetItemsInput{
				ReturnConsumedCapacity: types.ReturnConsumedCapacityTotal,
				TransactItems: []types.TransactGetItem{
					{Get: &types.Get{TableName: x.name, Key: key("t", "none")}},
					{Get: &types.Get{TableName: x.name, Key: key("t", "u"), ProjectionExpression: aws.String("a")}},
				},
			})
			require.NoError(t, err)
			require.Len(t, out.Responses, 2)
			require.Nil(t, out.Responses[0].Item)
			require.Equal(t, attrs{"a": num(1)}, out.Responses[1].Item)
			require.InDelta(t, 4.0, units(&out.ConsumedCapacity[0]), 0)
		},
		"concurrent transfers keep the sum": checkTransfers,
	}
}

func checkTransfers(t *testing.T, x *table) {
	x.put(item("x", "1", "cnt", num(100)), item("x", "2", "cnt", num(100)))
	var wg sync.WaitGroup
	var moved, other atomic.Int64
	for g := range 16 {
		wg.Go(func() {
			from, to := "1", "2"
			if g%2 == 0 {
				from, to = to, from
			}
			for range 10 {
				err := x.transact(
					x.add("x", from, -1, "cnt >= :o", attrs{":o": num(1)}),
					x.add("x", to, 1, "", nil))
				if err == nil {
					moved.Add(1)
				} else if !strings.Contains(err.Error(), "TransactionCanceledException") {
					other.Add(1)
				}
			}
		})
	}
	wg.Wait()
	require.Zero(t, other.Load())
	require.Positive(t, moved.Load())
	var a, b int
	_, err := fmt.Sscan(numberOf(x.get("x", "1")["cnt"])+" "+numberOf(x.get("x", "2")["cnt"]), &a, &b)
	require.NoError(t, err)
	require.Equal(t, 200, a+b)
}
