package table

import (
	"testing"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/stretchr/testify/require"
)

func fraction() types.AttributeValue { return &types.AttributeValueMemberN{Value: "1.5"} }

// sizeOf is an item's size by DynamoDB's rules: names and strings in UTF-8,
// numbers about a byte per two digits plus one, booleans one.
func sizeOf(t *testing.T, item Item) int {
	t.Helper()
	size := 0
	for name, v := range item {
		size += len(name)
		switch v := v.(type) {
		case *types.AttributeValueMemberS:
			size += len(v.Value)
		case *types.AttributeValueMemberN:
			size += (len(v.Value)+1)/2 + 1
		case *types.AttributeValueMemberBOOL:
			size++
		default:
			require.Failf(t, "unexpected type", "%s: %T", name, v)
		}
	}
	return size
}
