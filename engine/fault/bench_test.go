package fault_test

import (
	"bytes"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/stretchr/testify/require"

	"github.com/tidegate/tidegate/engine"
	"github.com/tidegate/tidegate/engine/fault"
)

// BenchmarkOverhead compares one UpdateItem of a bucket's size on the bare
// engine with the same through the layer.
func BenchmarkOverhead(b *testing.B) {
	embedded := engine.New(engine.Options{Now: frozen})
	db := dynamodb.NewFromConfig(engine.Config(embedded.HTTPClient(), "us-east-1"))
	_, err := db.CreateTable(b.Context(), &dynamodb.CreateTableInput{
		TableName: aws.String(shelfTable), BillingMode: types.BillingModePayPerRequest,
		AttributeDefinitions: []types.AttributeDefinition{
			{AttributeName: aws.String("box"), AttributeType: types.ScalarAttributeTypeS},
			{AttributeName: aws.String("slot"), AttributeType: types.ScalarAttributeTypeS},
		},
		KeySchema: schemaOf("box", "slot"),
	})
	require.NoError(b, err)
	body := `{"TableName":"shelf","Key":{"box":{"S":"a"},"slot":{"S":"0"}},"ReturnValues":"ALL_NEW",` +
		`"UpdateExpression":"SET #a = :a, #b = :b, #c = :c ADD #d :d, #e :d, #f :d","ConditionExpression":"attribute_not_exists(#z) OR #d <= :z",` +
		`"ExpressionAttributeNames":{"#a":"first","#b":"second","#c":"third","#d":"fourth","#e":"fifth","#f":"sixth","#z":"none"},` +
		`"ExpressionAttributeValues":{":a":{"S":"` + strings.Repeat("x", 100) + `"},":b":{"N":"1"},":c":{"N":"2"},":d":{"N":"1"},":z":{"N":"9"}}}`
	for _, c := range []struct {
		name    string
		through http.RoundTripper
	}{
		{"engine", embedded.HTTPClient()},
		{"pass-through", fault.New(fault.Options{Next: embedded.HTTPClient(), Now: frozen})},
		{"partitions", fault.New(fault.Options{
			Next: embedded.HTTPClient(), Now: frozen, Partitions: &fault.Partitions{WriteUnits: 1e12},
		})},
		{"stale", fault.New(fault.Options{Next: embedded.HTTPClient(), Now: frozen, Stale: fault.Stale{UpTo: time.Second, Tables: true}})},
	} {
		b.Run(c.name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				req, err := http.NewRequestWithContext(b.Context(), http.MethodPost, "http://x.invalid", bytes.NewReader([]byte(body)))
				require.NoError(b, err)
				req.Header["X-Amz-Target"] = []string{"DynamoDB_20120810.UpdateItem"}
				resp, err := c.through.RoundTrip(req)
				require.NoError(b, err)
				_, err = io.Copy(io.Discard, resp.Body)
				require.NoError(b, err)
				require.Equal(b, http.StatusOK, resp.StatusCode)
			}
		})
	}
}
