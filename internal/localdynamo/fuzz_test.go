package localdynamo_test

import (
	"encoding/json"
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tidegate/tidegate/internal/localdynamo"
)

// FuzzHandler throws requests at an engine with one small table. Whatever
// comes, the answer is JSON, no answer is a server's failure, and the table
// still works.
func FuzzHandler(f *testing.F) {
	operations := []string{
		"GetItem", "PutItem", "UpdateItem", "DeleteItem", "BatchGetItem", "BatchWriteItem", "Query", "Scan",
		"TransactWriteItems", "TransactGetItems", "DescribeTable", "UpdateTable", "ListTables", "CreateTable",
		"UpdateTimeToLive", "DescribeTimeToLive",
	}
	const key = `{"pk":{"S":"a"},"sk":{"S":"1"}}`
	for i, body := range []string{
		`{"TableName":"tbl","Key":` + key + `,"ProjectionExpression":"#a.b[0]","ExpressionAttributeNames":{"#a":"m"}}`,
		`{"TableName":"tbl","Item":{"pk":{"S":"a"},"sk":{"S":"1"},"g1":{"S":"g"},"g1n":{"N":"-1.5e3"},"m":{"M":{"l":{"L":[{"B":"AA=="},{"NULL":true}]}}}},"ReturnValues":"ALL_OLD"}`,
		`{"TableName":"tbl","Key":` + key + `,"UpdateExpression":"SET a = if_not_exists(a, :z) + :z REMOVE b ADD c :z","ConditionExpression":"attribute_exists(pk) OR NOT (a BETWEEN :z AND :z)","ExpressionAttributeValues":{":z":{"N":"1"}},"ReturnValues":"UPDATED_NEW","ReturnConsumedCapacity":"INDEXES"}`,
		`{"TableName":"tbl","Key":` + key + `}`,
		`{"RequestItems":{"tbl":{"Keys":[` + key + `],"ConsistentRead":true}}}`,
		`{"RequestItems":{"tbl":[{"DeleteRequest":{"Key":` + key + `}}]}}`,
		`{"TableName":"tbl","IndexName":"gall","KeyConditionExpression":"g1 = :g AND g1n > :n","ExpressionAttributeValues":{":g":{"S":"g"},":n":{"N":"0"}},"Limit":1,"ScanIndexForward":false}`,
		`{"TableName":"tbl","FilterExpression":"contains(x, :v)","ExpressionAttributeValues":{":v":{"SS":["a"]}},"ExclusiveStartKey":` + key + `}`,
		`{"ClientRequestToken":"t","TransactItems":[{"Update":{"TableName":"tbl","Key":` + key + `,"UpdateExpression":"ADD a :z","ExpressionAttributeValues":{":z":{"N":"1"}}}}]}`,
		`{"TransactItems":[{"Get":{"TableName":"tbl","Key":` + key + `}}]}`,
		`{"TableName":"tbl"}`,
		`{"TableName":"tbl","GlobalSecondaryIndexUpdates":[{"Delete":{"IndexName":"gall"}}]}`,
		`{"Limit":1,"ExclusiveStartTableName":"a"}`,
		`{"TableName":"other","KeySchema":[{"AttributeName":"k","KeyType":"HASH"}],"AttributeDefinitions":[{"AttributeName":"k","AttributeType":"B"}],"BillingMode":"PAY_PER_REQUEST"}`,
		`{"TableName":"tbl","TimeToLiveSpecification":{"AttributeName":"t","Enabled":true}}`,
		`{"TableName":"tbl","x":"\`,
	} {
		f.Add(uint8(i), []byte(body))
	}
	definition, err := json.Marshal(definition("tbl", true))
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, operation uint8, body []byte) {
		engine := localdynamo.New(localdynamo.Options{Now: newClock().Now})
		require.Equal(t, http.StatusOK, rawCall(engine, "DynamoDB_20120810.CreateTable", string(definition)).Code)
		put := `{"TableName":"tbl","Item":{"pk":{"S":"a"},"sk":{"S":"1"},"g1":{"S":"g"},"g1n":{"N":"1"}}}`
		require.Equal(t, http.StatusOK, rawCall(engine, "DynamoDB_20120810.PutItem", put).Code)

		name := operations[int(operation)%len(operations)]
		w := rawCall(engine, "DynamoDB_20120810."+name, string(body))
		require.True(t, json.Valid(w.Body.Bytes()), "%s", w.Body)
		require.NotEqual(t, http.StatusInternalServerError, w.Code, "%s", w.Body)

		w = rawCall(engine, "DynamoDB_20120810.GetItem", `{"TableName":"tbl","Key":`+key+`}`)
		require.Equal(t, http.StatusOK, w.Code, "%s", w.Body)
	})
}
