package engine_test

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tidegate/tidegate/engine"
)

var update = flag.Bool("update", false, "rewrite the golden files")

// TestErrorShapes fixes the error replies byte for byte: what a client in
// another language parses. Items in it have one attribute: others have no order.
func TestErrorShapes(t *testing.T) {
	c := newClock()
	embedded := engine.New(engine.Options{Now: c.Now})
	const setUp = `{"TableName":"tbl","BillingMode":"PAY_PER_REQUEST","KeySchema":[{"AttributeName":"pk","KeyType":"HASH"}],
		"AttributeDefinitions":[{"AttributeName":"pk","AttributeType":"S"}]}`
	require.Equal(t, 200, rawCall(embedded, "DynamoDB_20120810.CreateTable", setUp).Code)
	put := `{"TableName":"tbl","Item":{"pk":{"S":"a"}}`
	require.Equal(t, 200, rawCall(embedded, "DynamoDB_20120810.PutItem", put+`}`).Code)
	token := func(v string) string {
		return `{"ClientRequestToken":"tok","TransactItems":[{"Put":{"TableName":"tbl","Item":{"pk":{"S":"tok"},"v":{"N":"` + v + `"}}}}]}`
	}
	require.Equal(t, 200, rawCall(embedded, "DynamoDB_20120810.TransactWriteItems", token("1")).Code)

	var out bytes.Buffer
	for _, s := range []struct{ what, operation, body string }{
		{"malformed JSON", "PutItem", `{"TableName":`},
		{"trailing text", "PutItem", put + `}}`},
		{"no object", "GetItem", `[]`},
		{"not UTF-8", "GetItem", "{\"TableName\":\"\xff\"}"},
		{"wrong JSON type", "PutItem", `{"TableName":1}`},
		{"wrong JSON type in a table operation", "CreateTable", `{"TableName":1}`},
		{"unknown operation", "ExecuteStatement", `{}`},
		{"no such table", "GetItem", `{"TableName":"nope","Key":{"pk":{"S":"a"}}}`},
		{"table exists", "CreateTable", setUp},
		{"missing key", "PutItem", `{"TableName":"tbl","Item":{"v":{"N":"1"}}}`},
		{"no key at all", "GetItem", `{"TableName":"tbl"}`},
		{"unsupported parameter", "UpdateItem", `{"TableName":"tbl","Key":{"pk":{"S":"a"}},"AttributeUpdates":{}}`},
		{"condition refused", "PutItem", put + `,"ConditionExpression":"attribute_not_exists(pk)"}`},
		{"condition refused, item asked for", "PutItem", put +
			`,"ConditionExpression":"attribute_not_exists(pk)","ReturnValuesOnConditionCheckFailure":"ALL_OLD"}`},
		{"transaction cancelled", "TransactWriteItems", `{"TransactItems":[{"Put":{"TableName":"tbl","Item":{"pk":{"S":"b"}}}},{"ConditionCheck":` +
			`{"TableName":"tbl","Key":{"pk":{"S":"a"}},"ConditionExpression":"attribute_not_exists(pk)","ReturnValuesOnConditionCheckFailure":"ALL_OLD"}}]}`},
		{"token reused", "TransactWriteItems", token("2")},
	} {
		w := rawCall(embedded, "DynamoDB_20120810."+s.operation, s.body)
		require.True(t, json.Valid(w.Body.Bytes()), s.what)
		fmt.Fprintf(&out, "# %s: %s\n%d %s\n\n", s.what, s.operation, w.Code, w.Body)
	}
	golden(t, "errors.txt", out.Bytes())
}

func golden(t *testing.T, name string, got []byte) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *update {
		require.NoError(t, os.MkdirAll("testdata", 0o755))
		require.NoError(t, os.WriteFile(path, got, 0o644))
	}
	want, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Equal(t, string(want), string(got))
}
