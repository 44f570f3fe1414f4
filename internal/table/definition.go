package table

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
)

// DefaultName is the default of the table's name.
const DefaultName = "tidegate"

// indexes is the number of global secondary indexes: GSI1 to GSI4.
const indexes = 4

// IndexName returns the name of global secondary index n, 1 to 4.
func IndexName(n int) string { return "GSI" + strconv.Itoa(n) }

// indexAttributes returns the names of the key attributes of global secondary index
// n.
func indexAttributes(n int) (pk, sk string) {
	return IndexName(n) + attrPK, IndexName(n) + attrSK
}

// Definition returns the table as CreateTable takes it. Every index projects only
// keys: an attribute that an acquire writes must not cost an index write.
func Definition(name string) *dynamodb.CreateTableInput {
	in := &dynamodb.CreateTableInput{
		TableName:            &name,
		BillingMode:          types.BillingModePayPerRequest,
		AttributeDefinitions: attributeDefinitions(attrPK, attrSK),
		KeySchema:            keySchema(attrPK, attrSK),
		StreamSpecification: &types.StreamSpecification{
			StreamEnabled:  aws.Bool(true),
			StreamViewType: types.StreamViewTypeNewAndOldImages,
		},
	}
	for n := 1; n <= indexes; n++ {
		pk, sk := indexAttributes(n)
		in.AttributeDefinitions = append(in.AttributeDefinitions, attributeDefinitions(pk, sk)...)
		in.GlobalSecondaryIndexes = append(in.GlobalSecondaryIndexes, types.GlobalSecondaryIndex{
			IndexName:  aws.String(IndexName(n)),
			KeySchema:  keySchema(pk, sk),
			Projection: &types.Projection{ProjectionType: types.ProjectionTypeKeysOnly},
		})
	}
	return in
}

func attributeDefinitions(names ...string) []types.AttributeDefinition {
	defs := make([]types.AttributeDefinition, len(names))
	for i, name := range names {
		defs[i] = types.AttributeDefinition{AttributeName: aws.String(name), AttributeType: types.ScalarAttributeTypeS}
	}
	return defs
}

func keySchema(pk, sk string) []types.KeySchemaElement {
	return []types.KeySchemaElement{
		{AttributeName: aws.String(pk), KeyType: types.KeyTypeHash},
		{AttributeName: aws.String(sk), KeyType: types.KeyTypeRange},
	}
}

// createWait bounds the time until a new table is active. DynamoDB needs a few
// seconds, rarely a minute.
const createWait = 5 * time.Minute

// CreateTable creates the table if it does not exist, waits until it is active, and
// enables expiry by ttl. Several processes may call it at every start.
func CreateTable(ctx context.Context, client *dynamodb.Client, name string) error {
	_, err := client.CreateTable(ctx, Definition(name))
	var exists *types.ResourceInUseException
	if err != nil && !errors.As(err, &exists) {
		return fmt.Errorf("create table %s: %w", name, err)
	}
	waiter := dynamodb.NewTableExistsWaiter(client, func(o *dynamodb.TableExistsWaiterOptions) {
		o.MinDelay, o.MaxDelay = 50*time.Millisecond, 2*time.Second
	})
	if err := waiter.Wait(ctx, &dynamodb.DescribeTableInput{TableName: &name}, createWait); err != nil {
		return fmt.Errorf("wait for table %s: %w", name, err)
	}
	return enableTTL(ctx, client, name)
}

// enableTTL checks before and after the request: of two processes that enable
// expiry at the same time, the second is refused although expiry is enabled.
func enableTTL(ctx context.Context, client *dynamodb.Client, name string) error {
	if on, err := ttlEnabled(ctx, client, name); on || err != nil {
		return err
	}
	_, err := client.UpdateTimeToLive(ctx, &dynamodb.UpdateTimeToLiveInput{
		TableName:               &name,
		TimeToLiveSpecification: &types.TimeToLiveSpecification{AttributeName: aws.String(attrTTL), Enabled: aws.Bool(true)},
	})
	if err == nil {
		return nil
	}
	if on, errAgain := ttlEnabled(ctx, client, name); on && errAgain == nil {
		return nil
	}
	return fmt.Errorf("enable ttl on table %s: %w", name, err)
}

func ttlEnabled(ctx context.Context, client *dynamodb.Client, name string) (bool, error) {
	out, err := client.DescribeTimeToLive(ctx, &dynamodb.DescribeTimeToLiveInput{TableName: &name})
	if err != nil {
		return false, fmt.Errorf("read the ttl setting of table %s: %w", name, err)
	}
	d := out.TimeToLiveDescription
	return d != nil && (d.TimeToLiveStatus == types.TimeToLiveStatusEnabled ||
		d.TimeToLiveStatus == types.TimeToLiveStatusEnabling), nil
}
