package fault_test

import (
	"context"
	"net/http"
	"strconv"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/stretchr/testify/require"

	"github.com/tidegate/tidegate/engine"
	"github.com/tidegate/tidegate/engine/fault"
)

// shelf is a table with a sort key and an index of everything, behind a
// transport, on a manual clock.
type shelf struct {
	now    time.Time
	faults *fault.Transport
	db     *dynamodb.Client // through the faults, one attempt
	direct *dynamodb.Client
}

type testingContext interface {
	require.TestingT
	Context() context.Context
}

const (
	shelfTable = "shelf"
	shelfIndex = "by_color"
)

// roundTrip is a function as a back end.
type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(req *http.Request) (*http.Response, error) { return f(req) }

func newShelf(t testingContext, billing types.BillingMode, o fault.Options, between ...func(http.RoundTripper) http.RoundTripper) *shelf {
	s := &shelf{now: noon}
	now := func() time.Time { return s.now }
	embedded := engine.New(engine.Options{Now: now})
	o.Next, o.Now = embedded.HTTPClient(), now
	for _, b := range between {
		o.Next = b(o.Next)
	}
	o.Sleep = func(_ context.Context, d time.Duration) error { s.now = s.now.Add(d); return nil }
	s.faults = fault.New(o)
	s.db = dynamodb.NewFromConfig(engine.Config(s.faults, "us-east-1"), func(o *dynamodb.Options) { o.RetryMaxAttempts = 1 })
	s.direct = dynamodb.NewFromConfig(engine.Config(embedded.HTTPClient(), "us-east-1"))
	text := func(name string) types.AttributeDefinition {
		return types.AttributeDefinition{AttributeName: aws.String(name), AttributeType: types.ScalarAttributeTypeS}
	}
	in := &dynamodb.CreateTableInput{
		TableName: aws.String(shelfTable), BillingMode: billing,
		AttributeDefinitions: []types.AttributeDefinition{text("box"), text("slot"), text("color")},
		KeySchema:            schemaOf("box", "slot"),
		GlobalSecondaryIndexes: []types.GlobalSecondaryIndex{{
			IndexName: aws.String(shelfIndex), KeySchema: schemaOf("color", "slot"),
			Projection: &types.Projection{ProjectionType: types.ProjectionTypeAll},
		}},
	}
	if billing == types.BillingModeProvisioned {
		in.ProvisionedThroughput = &types.ProvisionedThroughput{ReadCapacityUnits: aws.Int64(1), WriteCapacityUnits: aws.Int64(1)}
		in.GlobalSecondaryIndexes[0].ProvisionedThroughput = in.ProvisionedThroughput
	}
	_, err := s.direct.CreateTable(t.Context(), in)
	require.NoError(t, err)
	return s
}

func schemaOf(partition, sort string) []types.KeySchemaElement {
	return []types.KeySchemaElement{
		{AttributeName: aws.String(partition), KeyType: types.KeyTypeHash},
		{AttributeName: aws.String(sort), KeyType: types.KeyTypeRange},
	}
}

func slot(box, slot string) map[string]types.AttributeValue {
	return map[string]types.AttributeValue{
		"box": &types.AttributeValueMemberS{Value: box}, "slot": &types.AttributeValueMemberS{Value: slot},
	}
}

// hit adds 1 to an item; a color other than "" is set with it.
func (s *shelf) hit(ctx context.Context, db *dynamodb.Client, box, color string) error {
	in := &dynamodb.UpdateItemInput{
		TableName: aws.String(shelfTable), Key: slot(box, "0"), UpdateExpression: aws.String("ADD hits :one"),
		ExpressionAttributeValues: map[string]types.AttributeValue{":one": &types.AttributeValueMemberN{Value: "1"}},
	}
	if color != "" {
		in.UpdateExpression = aws.String("SET color = :color ADD hits :one")
		in.ExpressionAttributeValues[":color"] = &types.AttributeValueMemberS{Value: color}
	}
	_, err := db.UpdateItem(ctx, in)
	return err
}

func (s *shelf) hits(t testingContext, box string) int {
	out, err := s.direct.GetItem(t.Context(), &dynamodb.GetItemInput{
		TableName: aws.String(shelfTable), Key: slot(box, "0"), ConsistentRead: aws.Bool(true),
	})
	require.NoError(t, err)
	value, ok := out.Item["hits"].(*types.AttributeValueMemberN)
	if !ok {
		return 0
	}
	n, err := strconv.Atoi(value.Value)
	require.NoError(t, err)
	return n
}
