package engine_test

import (
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/stretchr/testify/require"
)

// everyType is an item with an attribute of each type.
func everyType() attrs {
	return item("put", "1", "n", num("1.5"), "b", &types.AttributeValueMemberB{Value: []byte{0, 1, 255}},
		"bool", &types.AttributeValueMemberBOOL{Value: true}, "nul", &types.AttributeValueMemberNULL{Value: true},
		"ss", texts("a", "b"), "ns", &types.AttributeValueMemberNS{Value: []string{"1", "2"}},
		"bs", &types.AttributeValueMemberBS{Value: [][]byte{{1}}},
		"m", nested(attrs{"k": list(num(1), text("z"))}), "es", text(""), "quoted", text("a\"\\\n\u2028é\x00"))
}

func itemChecks() map[string]func(*testing.T, *table) {
	return map[string]func(*testing.T, *table){
		"every type": func(t *testing.T, x *table) {
			x.put(everyType())
			require.Equal(t, everyType(), x.get("put", "1"))
		},
		"numbers are normalised": func(t *testing.T, x *table) {
			x.put(item("n", "1", "n", num("001.500")))
			require.Equal(t, "1.5", numberOf(x.get("n", "1")["n"]))
		},
		"projection": func(t *testing.T, x *table) {
			x.put(everyType())
			out, err := x.db.GetItem(t.Context(), &dynamodb.GetItemInput{
				TableName: x.name, Key: key("put", "1"),
				ProjectionExpression: aws.String("#m.k[1], n"), ExpressionAttributeNames: map[string]string{"#m": "m"},
			})
			require.NoError(t, err)
			require.Equal(t, attrs{"n": num("1.5"), "m": nested(attrs{"k": list(text("z"))})}, out.Item)
		},
		"put under a condition": func(t *testing.T, x *table) {
			x.put(item("p", "1", "v", num(2)))
			put := func(onFailure types.ReturnValuesOnConditionCheckFailure) error {
				_, err := x.db.PutItem(t.Context(), &dynamodb.PutItemInput{
					TableName: x.name, Item: item("p", "1"), ConditionExpression: aws.String("attribute_not_exists(pk)"),
					ReturnValuesOnConditionCheckFailure: onFailure,
				})
				return err
			}
			var refused *types.ConditionalCheckFailedException
			require.ErrorAs(t, put(""), &refused)
			require.Nil(t, refused.Item)
			require.ErrorAs(t, put(types.ReturnValuesOnConditionCheckFailureAllOld), &refused)
			require.Equal(t, item("p", "1", "v", num(2)), refused.Item)
		},
		"put returns the old item": func(t *testing.T, x *table) {
			put := func(v int) attrs {
				out, err := x.db.PutItem(t.Context(), &dynamodb.PutItemInput{
					TableName: x.name, Item: item("p", "2", "v", num(v)), ReturnValues: types.ReturnValueAllOld,
				})
				require.NoError(t, err)
				return out.Attributes
			}
			require.Nil(t, put(1))
			require.Equal(t, item("p", "2", "v", num(1)), put(2))
		},
		"delete": func(t *testing.T, x *table) {
			x.put(item("d", "1", "v", num(2)))
			_, err := x.db.DeleteItem(t.Context(), &dynamodb.DeleteItemInput{
				TableName: x.name, Key: key("d", "1"), ConditionExpression: aws.String("v > :x"),
				ExpressionAttributeValues:           attrs{":x": num(5)},
				ReturnValuesOnConditionCheckFailure: types.ReturnValuesOnConditionCheckFailureAllOld,
			})
			var refused *types.ConditionalCheckFailedException
			require.ErrorAs(t, err, &refused)
			require.Equal(t, item("d", "1", "v", num(2)), refused.Item)
			out, err := x.db.DeleteItem(t.Context(), &dynamodb.DeleteItemInput{
				TableName: x.name, Key: key("d", "1"), ReturnValues: types.ReturnValueAllOld,
			})
			require.NoError(t, err)
			require.Equal(t, item("d", "1", "v", num(2)), out.Attributes)
			require.Nil(t, x.get("d", "1"))
		},
	}
}

func updateChecks() map[string]func(*testing.T, *table) {
	return map[string]func(*testing.T, *table){
		"add creates and adds": func(t *testing.T, x *table) {
			x.allNew("u", "1", "ADD cnt :one", nil, attrs{":one": num(1)})
			require.Equal(t, item("u", "1", "cnt", num(2)), x.allNew("u", "1", "ADD cnt :one", nil, attrs{":one": num(1)}))
		},
		"set, remove and add together": func(t *testing.T, x *table) {
			names := map[string]string{"#t": "tokens"}
			x.allNew("u", "2", "SET #t = if_not_exists(#t, :z) + :d, a = :a, b = :b", names,
				attrs{":z": num(10), ":d": num(5), ":a": text("a"), ":b": text("b")})
			got := x.allNew("u", "2", "SET #t = #t - :d, a = b REMOVE b ADD cnt :d", names, attrs{":d": num("0.5")})
			require.Equal(t, item("u", "2", "tokens", num("14.5"), "a", text("b"), "cnt", num("0.5")), got)
		},
		"lists, paths and sets": func(t *testing.T, x *table) {
			x.put(item("u", "3", "l", list(num(1)), "m", nested(attrs{"x": num(1)}), "ss", texts("a", "b")))
			x.allNew("u", "3", "SET l = list_append(l, :l), m.y = :v DELETE ss :s", nil,
				attrs{":l": list(num(2)), ":v": text("v"), ":s": texts("a")})
			got := x.allNew("u", "3", "SET l[0] = :v", nil, attrs{":v": text("v")})
			require.Equal(t, item("u", "3", "l", list(text("v"), num(2)), "ss", texts("b"),
				"m", nested(attrs{"x": num(1), "y": text("v")})), got)
		},
		"return values": func(t *testing.T, x *table) {
			x.put(item("u", "1", "cnt", num(8), "other", num(1)))
			set := func(v int, returns types.ReturnValue) attrs {
				return x.update("u", "1", change{update: "SET cnt = :v", values: attrs{":v": num(v)}, returns: returns}).Attributes
			}
			require.Equal(t, attrs{"cnt": num(9)}, set(9, types.ReturnValueUpdatedNew))
			require.Equal(t, attrs{"cnt": num(9)}, set(10, types.ReturnValueUpdatedOld))
			require.Equal(t, item("u", "1", "cnt", num(10), "other", num(1)), set(11, types.ReturnValueAllOld))
			require.Nil(t, set(12, types.ReturnValueNone))
		},
		"a failed condition returns the item": func(t *testing.T, x *table) {
			x.put(item("u", "1", "cnt", num(11)))
			_, err := x.tryUpdate("u", "1", change{
				update:    "ADD cnt :d",
				condition: "cnt < :lim AND (attribute_exists(pk) OR NOT attribute_type(cnt, :s))",
				values:    attrs{":d": num(1), ":lim": num(3), ":s": text("S")},
			})
			var refused *types.ConditionalCheckFailedException
			require.ErrorAs(t, err, &refused)
			require.Equal(t, item("u", "1", "cnt", num(11)), refused.Item)
		},
		"condition functions": func(t *testing.T, x *table) {
			x.put(item("u", "3", "l", list(text("v"), num(2)), "ss", texts("b"), "m", nested(attrs{"x": num(1), "y": text("v")})))
			x.update("u", "3", change{
				update: "SET z = :z",
				condition: "size(l) = :two AND contains(ss, :b) AND m.x IN (:one, :two) AND m.x BETWEEN :one AND :two " +
					"AND begins_with(m.y, :v) AND m.y <> :b",
				values: attrs{":z": num(1), ":two": num(2), ":b": text("b"), ":one": num(1), ":v": text("v")},
			})
		},
		"38 digits": func(t *testing.T, x *table) {
			x.put(item("u", "big", "n", num("12345678901234567890123456789012345678")))
			require.Equal(t, "12345678901234567890123456789012345679",
				numberOf(x.allNew("u", "big", "ADD n :o", nil, attrs{":o": num(1)})["n"]))
			require.Equal(t, "0.3", numberOf(x.allNew("u", "small", "SET n = :a + :b", nil, attrs{":a": num("0.1"), ":b": num("0.2")})["n"]))
			require.Equal(t, "1763690446123456790",
				numberOf(x.allNew("u", "ns", "SET t = :a + :b", nil, attrs{":a": num("1763690446123456789"), ":b": num(1)})["t"]))
		},
		"64 callers add exactly":        checkConcurrentAdd,
		"64 callers never pass a limit": checkConcurrentLimit,
		"an update that only removes makes no item": func(t *testing.T, x *table) {
			require.Nil(t, x.allNew("u", "none", "REMOVE a, b", nil, nil))
			require.Nil(t, x.get("u", "none"))
			_, err := x.tryUpdate("u", "none", change{update: "REMOVE a.b"})
			requireCode(t, err, "ValidationException")
			require.Equal(t, item("u", "none"), x.allNew("u", "none", "REMOVE a DELETE s :s", nil, attrs{":s": texts("a")}))
		},
		"nested return values": checkNestedReturns,
		"an update of nothing makes a key": func(t *testing.T, x *table) {
			_, err := x.db.UpdateItem(t.Context(), &dynamodb.UpdateItemInput{TableName: x.name, Key: key("u", "bare")})
			require.NoError(t, err)
			require.Equal(t, key("u", "bare"), x.get("u", "bare"))
		},
	}
}

// checkNestedReturns: UPDATED_OLD and UPDATED_NEW return of a nested path only
// the part that was touched.
func checkNestedReturns(t *testing.T, x *table) {
	x.put(item("u", "n", "m", nested(attrs{"a": num(1), "b": num(2)}), "l", list(text("x"), text("y")), "spare", num(9)))
	set := func(update string, returns types.ReturnValue) attrs {
		var values attrs
		if strings.Contains(update, ":v") {
			values = attrs{":v": num(7)}
		}
		return x.update("u", "n", change{update: update, values: values, returns: returns}).Attributes
	}
	for _, s := range []struct {
		update  string
		returns types.ReturnValue
		want    attrs
	}{
		{"SET m.a = :v", types.ReturnValueUpdatedOld, attrs{"m": nested(attrs{"a": num(1)})}},
		{"SET m.a = m.a + :v", types.ReturnValueUpdatedNew, attrs{"m": nested(attrs{"a": num(14)})}},
		{"SET m.fresh = :v", types.ReturnValueUpdatedOld, nil},
		{"SET l[1] = :v", types.ReturnValueUpdatedNew, attrs{"l": list(num(7))}},
		{"ADD m.b :v REMOVE spare, l[0]", types.ReturnValueUpdatedOld, attrs{"m": nested(attrs{"b": num(2)}), "spare": num(9), "l": list(text("x"))}},
		{"REMOVE m.fresh", types.ReturnValueUpdatedNew, nil},
	} {
		require.Equal(t, s.want, set(s.update, s.returns), s.update)
	}
	require.Equal(t, item("u", "n", "m", nested(attrs{"a": num(14), "b": num(9)}), "l", list(num(7))), x.get("u", "n"))
}

func checkConcurrentAdd(t *testing.T, x *table) {
	var wg sync.WaitGroup
	var failed atomic.Int64
	for range 64 {
		wg.Go(func() {
			for range 10 {
				if _, err := x.tryUpdate("hot", "1", change{update: "ADD cnt :one", values: attrs{":one": num(1)}}); err != nil {
					failed.Add(1)
				}
			}
		})
	}
	wg.Wait()
	require.Zero(t, failed.Load())
	require.Equal(t, "640", numberOf(x.get("hot", "1")["cnt"]))
}

func checkConcurrentLimit(t *testing.T, x *table) {
	var wg sync.WaitGroup
	var admitted, denied atomic.Int64
	for range 64 {
		wg.Go(func() {
			for range 5 {
				_, err := x.tryUpdate("hot", "2", change{
					update:    "SET used = if_not_exists(used, :z) + :one",
					condition: "attribute_not_exists(used) OR used < :lim",
					values:    attrs{":one": num(1), ":z": num(0), ":lim": num(100)},
				})
				if err == nil {
					admitted.Add(1)
				} else {
					denied.Add(1)
				}
			}
		})
	}
	wg.Wait()
	require.EqualValues(t, 100, admitted.Load())
	require.EqualValues(t, 220, denied.Load())
}

func batchChecks() map[string]func(*testing.T, *table) {
	write := func(x *table, w ...types.WriteRequest) error {
		_, err := x.db.BatchWriteItem(x.t.Context(), &dynamodb.BatchWriteItemInput{
			RequestItems: map[string][]types.WriteRequest{*x.name: w},
		})
		return err
	}
	puts := func(n int) []types.WriteRequest {
		w := make([]types.WriteRequest, n)
		for i := range w {
			w[i].PutRequest = &types.PutRequest{Item: item("b", strconv.Itoa(100+i), "extra", text("e"), "other", num(i))}
		}
		return w
	}
	return map[string]func(*testing.T, *table){
		"write and read": func(t *testing.T, x *table) {
			x.put(item("gone", "1"))
			require.NoError(t, write(x, append(puts(20), types.WriteRequest{DeleteRequest: &types.DeleteRequest{Key: key("gone", "1")}})...))
			out, err := x.db.BatchGetItem(t.Context(), &dynamodb.BatchGetItemInput{
				RequestItems: map[string]types.KeysAndAttributes{*x.name: {
					Keys:                 []attrs{key("b", "100"), key("b", "119"), key("gone", "1")},
					ProjectionExpression: aws.String("sk, extra"), ConsistentRead: aws.Bool(true),
				}},
				ReturnConsumedCapacity: types.ReturnConsumedCapacityTotal,
			})
			require.NoError(t, err)
			require.Empty(t, out.UnprocessedKeys)
			require.ElementsMatch(t, []attrs{
				{"sk": text("100"), "extra": text("e")}, {"sk": text("119"), "extra": text("e")},
			}, out.Responses[*x.name])
			require.InDelta(t, 3.0, units(&out.ConsumedCapacity[0]), 0, "each key is rounded up alone")
		},
		"limits": func(t *testing.T, x *table) {
			require.NoError(t, write(x, puts(25)...))
			requireCode(t, write(x, puts(26)...), "ValidationException")
			requireCode(t, write(x, puts(1)[0], puts(1)[0]), "ValidationException")
			keys := make([]attrs, 101)
			for i := range keys {
				keys[i] = key("b", strconv.Itoa(i))
			}
			get := func(keys []attrs) error {
				_, err := x.db.BatchGetItem(t.Context(), &dynamodb.BatchGetItemInput{
					RequestItems: map[string]types.KeysAndAttributes{*x.name: {Keys: keys}},
				})
				return err
			}
			require.NoError(t, get(keys[:100]))
			requireCode(t, get(keys), "ValidationException")
			requireCode(t, get([]attrs{keys[0], keys[0]}), "ValidationException")
		},
		"one bad item stops a batch": func(t *testing.T, x *table) {
			requireCode(t, write(x, puts(1)[0], types.WriteRequest{PutRequest: &types.PutRequest{
				Item: item("b", "bad", "g1", num(1)),
			}}), "ValidationException")
			require.Nil(t, x.get("b", "100"))
		},
	}
}
