package engine_test

import (
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/stretchr/testify/require"
)

// perIndex is what an update consumed: in all, of the table, and of each index.
func (x *table) perIndex(pk, sk string, c change) (total, table float64, indexes map[string]float64) {
	x.t.Helper()
	c.capacity = types.ReturnConsumedCapacityIndexes
	used := x.update(pk, sk, c).ConsumedCapacity
	require.NotNil(x.t, used)
	indexes = map[string]float64{}
	for name, u := range used.GlobalSecondaryIndexes {
		indexes[name] = aws.ToFloat64(u.CapacityUnits)
	}
	return units(used), aws.ToFloat64(used.Table.CapacityUnits), indexes
}

func capacityChecks() map[string]func(*testing.T, *table) {
	get := func(x *table, pk, sk string, consistent bool) float64 {
		out, err := x.db.GetItem(x.t.Context(), &dynamodb.GetItemInput{
			TableName: x.name, Key: key(pk, sk), ConsistentRead: &consistent,
			ReturnConsumedCapacity: types.ReturnConsumedCapacityTotal,
		})
		require.NoError(x.t, err)
		return units(out.ConsumedCapacity)
	}
	put := func(x *table, it attrs) float64 {
		out, err := x.db.PutItem(x.t.Context(), &dynamodb.PutItemInput{
			TableName: x.name, Item: it, ReturnConsumedCapacity: types.ReturnConsumedCapacityTotal,
		})
		require.NoError(x.t, err)
		return units(out.ConsumedCapacity)
	}
	return map[string]func(*testing.T, *table){
		"write 1, read a half or 1": func(t *testing.T, x *table) {
			require.InDelta(t, 1.0, put(x, item("cap", "1", "a", text("x"))), 0)
			require.InDelta(t, 0.5, get(x, "cap", "1", false), 0)
			require.InDelta(t, 1.0, get(x, "cap", "1", true), 0)
			require.InDelta(t, 0.5, get(x, "cap", "none", false), 0)
		},
		"rounded up, larger of old and new": func(t *testing.T, x *table) {
			fat := item("cap", "5k", "d", text(strings.Repeat("x", 5*1024-len("pkcapsk5kd"))))
			require.InDelta(t, 5.0, put(x, fat), 0)
			require.InDelta(t, 2.0, get(x, "cap", "5k", true), 0)
			require.InDelta(t, 5.0, put(x, item("cap", "5k")), 0, "the old item counts")
			require.InDelta(t, 1.0, put(x, item("cap", "5k")), 0)
			fat["d"] = text(strings.Repeat("x", 5*1024-len("pkcapsk5kd")+1))
			require.InDelta(t, 6.0, put(x, fat), 0)
		},
		"an index is charged when it changes": checkIndexCharges,
		"queries": func(t *testing.T, x *table) {
			fill(x)
			used := func(index *string, consistent bool) *types.ConsumedCapacity {
				column, value := "pk", "b"
				if index != nil {
					column, value = "g1", "B"
				}
				return x.query(column+" = :p", attrs{":p": text(value)}, func(in *dynamodb.QueryInput) {
					in.IndexName, in.ConsistentRead = index, &consistent
					in.ReturnConsumedCapacity = types.ReturnConsumedCapacityIndexes
				}).ConsumedCapacity
			}
			require.InDelta(t, 1.0, units(used(nil, true)), 0)
			require.InDelta(t, 0.5, units(used(nil, false)), 0)
			index := used(aws.String("gkeys"), false)
			require.InDelta(t, 0.5, units(index), 0)
			require.InDelta(t, 0.0, aws.ToFloat64(index.Table.CapacityUnits), 0)
			require.InDelta(t, 0.5, aws.ToFloat64(index.GlobalSecondaryIndexes["gkeys"].CapacityUnits), 0)
		},
		"transactions cost double": func(t *testing.T, x *table) {
			out, err := x.db.TransactWriteItems(t.Context(), &dynamodb.TransactWriteItemsInput{
				ReturnConsumedCapacity: types.ReturnConsumedCapacityTotal,
				TransactItems:          []types.TransactWriteItem{{Put: &types.Put{TableName: x.name, Item: item("cap", "3")}}},
			})
			require.NoError(t, err)
			require.Len(t, out.ConsumedCapacity, 1)
			require.InDelta(t, 2.0, units(&out.ConsumedCapacity[0]), 0)
			require.InDelta(t, 2.0, aws.ToFloat64(out.ConsumedCapacity[0].WriteCapacityUnits), 0)
		},
		"a transaction's index entries cost once": func(t *testing.T, x *table) {
			out, err := x.db.TransactWriteItems(t.Context(), &dynamodb.TransactWriteItemsInput{
				ReturnConsumedCapacity: types.ReturnConsumedCapacityIndexes,
				TransactItems: []types.TransactWriteItem{{Put: &types.Put{
					TableName: x.name, Item: item("cap", "4", "g1", text("g"), "g1n", num(1)),
				}}},
			})
			require.NoError(t, err)
			require.InDelta(t, 5.0, units(&out.ConsumedCapacity[0]), 0)
			require.InDelta(t, 2.0, aws.ToFloat64(out.ConsumedCapacity[0].Table.WriteCapacityUnits), 0)
			require.Len(t, out.ConsumedCapacity[0].GlobalSecondaryIndexes, 3)
			for name, u := range out.ConsumedCapacity[0].GlobalSecondaryIndexes {
				require.InDelta(t, 1.0, aws.ToFloat64(u.WriteCapacityUnits), 0, name)
			}
		},
		"none unless asked": func(t *testing.T, x *table) {
			require.Nil(t, x.update("cap", "4", change{update: "SET a = :a", values: attrs{":a": num(1)}}).ConsumedCapacity)
		},
	}
}

func checkIndexCharges(t *testing.T, x *table) {
	steps := []struct {
		what    string
		update  string
		values  attrs
		table   float64
		indexes map[string]float64
	}{
		{"enters all three", "SET g1 = :g, g1n = :n, extra = :g", attrs{":g": text("Z"), ":n": num(1)}, 1, map[string]float64{"gall": 1, "gkeys": 1, "gincl": 1}},
		{"only the one that shows everything", "SET unrelated = :g", attrs{":g": text("Z")}, 1, map[string]float64{"gall": 1}},
		{"the same again changes nothing", "SET unrelated = :g", attrs{":g": text("Z")}, 1, map[string]float64{}},
		{"included", "SET extra = :g", attrs{":g": text("Y")}, 1, map[string]float64{"gall": 1, "gincl": 1}},
		{"a moved key costs twice", "SET g1 = :g", attrs{":g": text("Q")}, 1, map[string]float64{"gall": 2, "gkeys": 2, "gincl": 2}},
		{"leaves two", "REMOVE g1n", nil, 1, map[string]float64{"gall": 1, "gincl": 1}},
	}
	for _, s := range steps {
		total, table, indexes := x.perIndex("cap", "2", change{update: s.update, values: s.values})
		require.Equal(t, s.indexes, indexes, s.what)
		require.InDelta(t, s.table, table, 0, s.what)
		for _, u := range s.indexes {
			table += u
		}
		require.InDelta(t, table, total, 0, s.what)
	}
}

func validationChecks() map[string]func(*testing.T, *table) {
	one := attrs{":v": num(1)}
	return map[string]func(*testing.T, *table){
		"updates": func(t *testing.T, x *table) {
			x.put(item("u", "3", "z", num(1), "s", text("s")))
			for what, c := range map[string]change{
				"reserved word":     {update: "SET status = :v", values: one},
				"unused value":      {update: "SET a = :v", values: attrs{":v": num(1), ":w": num(2)}},
				"unused name":       {update: "SET a = :v", values: one, names: map[string]string{"#x": "x"}},
				"undefined value":   {update: "SET a = :w", values: one},
				"bad syntax":        {update: "SET a == :v", values: one},
				"empty expression":  {update: ""},
				"key attribute":     {update: "SET pk = :v", values: attrs{":v": text("x")}},
				"add to a string":   {update: "ADD s :v", values: one},
				"add a string":      {update: "ADD z :v", values: attrs{":v": text("x")}},
				"same path twice":   {update: "SET a = :v, a = :v", values: one},
				"no such parent":    {update: "SET no.such = :v", values: one},
				"index key type":    {update: "SET g1 = :v", values: one},
				"empty index key":   {update: "SET g1 = :v", values: attrs{":v": text("")}},
				"too big a number":  {update: "SET a = :v", values: attrs{":v": num("1e126")}},
				"no number":         {update: "SET a = :v", values: attrs{":v": num("abc")}},
				"too long an item":  {update: "SET a = :v", values: attrs{":v": text(strings.Repeat("x", 400*1024))}},
				"two sets of roots": {update: "SET a = :v SET b = :v", values: one},
			} {
				_, err := x.tryUpdate("u", "3", c)
				require.Error(t, err, what)
				requireCode(t, err, "ValidationException")
			}
			require.Equal(t, item("u", "3", "z", num(1), "s", text("s")), x.get("u", "3"))
		},
		"puts": func(t *testing.T, x *table) {
			for what, it := range map[string]attrs{
				"missing key":      {"pk": text("only")},
				"empty key":        item("", "x"),
				"wrong key type":   {"pk": text("a"), "sk": num(1)},
				"index key type":   item("w", "1", "g1", num(1), "g1n", num(1)),
				"too big":          item("v", "big", "d", text(strings.Repeat("x", 410*1024))),
				"long partition":   item(strings.Repeat("x", 2049), "x"),
				"long sort key":    item("x", strings.Repeat("x", 1025)),
				"empty set":        item("x", "x", "s", texts()),
				"set with doubles": item("x", "x", "s", texts("a", "a")),
			} {
				err := x.tryPut(it)
				require.Error(t, err, what)
				requireCode(t, err, "ValidationException")
			}
			x.put(item("v", "most", "d", text(strings.Repeat("x", 400*1024-len("pkvskmostd")))))
		},
		"reads": func(t *testing.T, x *table) {
			get := func(k attrs) error {
				_, err := x.db.GetItem(t.Context(), &dynamodb.GetItemInput{TableName: x.name, Key: k})
				return err
			}
			requireCode(t, get(attrs{"pk": text("a")}), "ValidationException")
			requireCode(t, get(item("a", "b", "c", num(1))), "ValidationException")
			requireCode(t, get(attrs{"pk": text("a"), "sk": num(1)}), "ValidationException")
			for what, spoil := range map[string]func(*dynamodb.QueryInput){
				"no key condition": func(in *dynamodb.QueryInput) { in.KeyConditionExpression = nil },
				"no partition":     func(in *dynamodb.QueryInput) { in.KeyConditionExpression = aws.String("sk = :p") },
				"wrong key type":   func(in *dynamodb.QueryInput) { in.ExpressionAttributeValues[":p"] = num(1) },
				"no such index":    func(in *dynamodb.QueryInput) { in.IndexName = aws.String("nope") },
				"consistent index": func(in *dynamodb.QueryInput) { in.IndexName, in.ConsistentRead = aws.String("gkeys"), aws.Bool(true) },
				"all of a few": func(in *dynamodb.QueryInput) {
					in.IndexName, in.Select = aws.String("gkeys"), types.SelectAllAttributes
				},
				"limit 0":           func(in *dynamodb.QueryInput) { in.Limit = aws.Int32(0) },
				"foreign start key": func(in *dynamodb.QueryInput) { in.ExclusiveStartKey = key("other", "x") },
				"bad start key":     func(in *dynamodb.QueryInput) { in.ExclusiveStartKey = attrs{"pk": text("p")} },
				"count and project": func(in *dynamodb.QueryInput) {
					in.Select, in.ProjectionExpression = types.SelectCount, aws.String("a")
				},
			} {
				in := &dynamodb.QueryInput{
					TableName: x.name, KeyConditionExpression: aws.String("pk = :p"), ExpressionAttributeValues: attrs{":p": text("p")},
				}
				spoil(in)
				_, err := x.db.Query(t.Context(), in)
				require.Error(t, err, what)
				requireCode(t, err, "ValidationException")
			}
		},
		"what is left out says so": checkUnsupported,
	}
}

func checkUnsupported(t *testing.T, x *table) {
	_, err := x.db.ExecuteStatement(t.Context(), &dynamodb.ExecuteStatementInput{Statement: aws.String("SELECT * FROM x")})
	requireCode(t, err, "UnknownOperationException")
	require.ErrorContains(t, err, "ExecuteStatement")
	_, err = x.db.UpdateItem(t.Context(), &dynamodb.UpdateItemInput{
		TableName: x.name, Key: key("a", "b"),
		AttributeUpdates: map[string]types.AttributeValueUpdate{"v": {Value: num(1)}},
	})
	requireCode(t, err, "ValidationException")
	require.ErrorContains(t, err, "AttributeUpdates")
}
