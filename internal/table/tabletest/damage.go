package tabletest

import (
	"context"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/stretchr/testify/require"

	"github.com/tidegate/tidegate/internal/table"
	"github.com/tidegate/tidegate/pkg/keys"
)

// Damages returns, by name, update expressions that make a bucket item with a limit
// rpm undecodable, as a manual edit or another program would.
func Damages() map[string]string {
	return map[string]string{
		"a wrong type":        "SET b_rpm_dr = :text",
		"a missing attribute": "REMOVE b_rpm_cp",
		"beyond int64":        "SET b_rpm_dr = :large",
		"a foreign limit":     "SET b_foreign_dr = :text",
		"another count":       "SET shard_count = :three",
	}
}

// Damage applies an expression from [Damages] to an existing item.
func Damage(ctx context.Context, t testing.TB, client *dynamodb.Client, tableName string, key keys.Bucket, expression string) {
	t.Helper()
	values := map[string]types.AttributeValue{}
	for name, value := range map[string]types.AttributeValue{
		":text":  &types.AttributeValueMemberS{Value: "none"},
		":large": &types.AttributeValueMemberN{Value: "9223372036854775808"},
		":three": &types.AttributeValueMemberN{Value: "3"},
	} {
		if strings.Contains(expression, name) {
			values[name] = value
		}
	}
	in := &dynamodb.UpdateItemInput{TableName: &tableName, Key: table.KeyItem(key.Key()), UpdateExpression: &expression}
	if len(values) > 0 {
		in.ExpressionAttributeValues = values
	}
	_, err := client.UpdateItem(ctx, in)
	require.NoError(t, err)
}
