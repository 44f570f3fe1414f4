package engine_test

import (
	"encoding/base64"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tidegate/tidegate/engine"
)

// What the one stream of FuzzHandler's engine is called, and its one shard.
const (
	fuzzedStream = "arn:aws:dynamodb:us-east-1:000000000000:table/tbl/stream/2026-03-01T12:00:00.000"
	fuzzedShard  = "shardId-00000001772366400000-00000001"
)

// FuzzHandler throws requests of any target at an engine with one small table.
// Whatever comes, the answer is JSON with an error's type and message if it is a
// refusal, no answer is a server's failure, and the table still works. The requests
// of TestRefusals are among the seeds.
func FuzzHandler(f *testing.F) {
	const tables, streams = "DynamoDB_20120810.", "DynamoDBStreams_20120810."
	targets := []string{
		tables + "GetItem", tables + "PutItem", tables + "UpdateItem", tables + "DeleteItem", tables + "BatchGetItem",
		tables + "BatchWriteItem", tables + "Query", tables + "Scan", tables + "TransactWriteItems", tables + "TransactGetItems",
		tables + "DescribeTable", tables + "UpdateTable", tables + "ListTables", tables + "CreateTable",
		tables + "UpdateTimeToLive", tables + "DescribeTimeToLive", streams + "GetRecords", streams + "GetShardIterator",
		streams + "DescribeStream", streams + "ListStreams", tables + "DeleteTable", "", tables, streams + "PutItem", "PutItem",
		"\x00\"\\",
	}
	const key = `{"pk":{"S":"a"},"sk":{"S":"1"}}`
	iterator := base64.StdEncoding.EncodeToString([]byte(`{"Shard":"` + fuzzedShard + `","Next":1,"At":1772366400000}`))
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
		`{"ShardIterator":"` + fuzzedStream + `|1|` + iterator + `","Limit":5}`,
		`{"StreamArn":"` + fuzzedStream + `","ShardId":"` + fuzzedShard + `","ShardIteratorType":"AT_SEQUENCE_NUMBER","SequenceNumber":"000000000000000000001"}`,
		`{"StreamArn":"` + fuzzedStream + `","Limit":1,"ExclusiveStartShardId":"` + fuzzedShard + `","ShardFilter":{"Type":"CHILD_SHARDS","ShardId":"` + fuzzedShard + `"}}`,
		`{"TableName":"tbl","Limit":1,"ExclusiveStartStreamArn":"` + fuzzedStream + `"}`,
		`{"TableName":"tbl"}`, `{}`, `{"TableName":"tbl","x":"\`, `[]`, ``, `{"\u12":"\ud800"}`,
	} {
		f.Add(targets[i], []byte(body))
	}
	for _, r := range allRefusals() {
		if body := expand(r.body); len(body) < 1<<12 {
			f.Add(tables+r.operation, []byte(body))
		}
	}
	definition, err := json.Marshal(definition("tbl", true))
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, target string, body []byte) {
		embedded := engine.New(engine.Options{Now: newClock().Now})
		require.Equal(t, http.StatusOK, rawCall(embedded, tables+"CreateTable", string(definition)).Code)
		put := `{"TableName":"tbl","Item":{"pk":{"S":"a"},"sk":{"S":"1"},"g1":{"S":"g"},"g1n":{"N":"1"}}}`
		require.Equal(t, http.StatusOK, rawCall(embedded, tables+"PutItem", put).Code)

		requireAnswer(t, rawCall(embedded, target, string(body)))

		w := rawCall(embedded, tables+"GetItem", `{"TableName":"tbl","Key":`+key+`}`)
		if target == tables+"DeleteTable" && w.Code != http.StatusOK {
			require.Contains(t, w.Body.String(), "ResourceNotFoundException")
			return
		}
		require.Equal(t, http.StatusOK, w.Code, "%s", w.Body)
	})
}

// requireAnswer wants a reply that a client can make sense of.
func requireAnswer(t *testing.T, w *httptest.ResponseRecorder) {
	t.Helper()
	var reply struct {
		Type    string `json:"__type"`
		Message string `json:"message"` // or with a capital, as transactions have it
	}
	require.NoError(t, json.Unmarshal(w.Body.Bytes(), &reply), "%s", w.Body)
	switch w.Code {
	case http.StatusOK:
		require.Empty(t, reply.Type)
	case http.StatusBadRequest, http.StatusRequestEntityTooLarge:
		_, kind, ok := strings.Cut(reply.Type, "#")
		require.True(t, ok && kind != "" && reply.Message != "", "%s", w.Body)
	default:
		require.Failf(t, "the server's failure", "%d %s", w.Code, w.Body)
	}
}
