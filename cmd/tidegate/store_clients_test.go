package main

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/aws/aws-sdk-go-v2/service/dynamodbstreams"
	streamtypes "github.com/aws/aws-sdk-go-v2/service/dynamodbstreams/types"
	"github.com/stretchr/testify/require"

	"github.com/tidegate/tidegate/internal/store"
	"github.com/tidegate/tidegate/internal/table"
)

// storeClient is what the AWS CLI and the like are: the SDK with credentials of
// its own, through a socket.
type storeClient struct {
	db      *dynamodb.Client
	streams *dynamodbstreams.Client
}

func newStoreClient(endpoint string) storeClient {
	cfg := aws.Config{
		Region: localRegion, BaseEndpoint: &endpoint,
		HTTPClient:  store.OwnBody(store.NewHTTPClient()),
		Credentials: credentials.NewStaticCredentialsProvider("AKIDEXAMPLE", "secret", ""),
	}
	return storeClient{db: dynamodb.NewFromConfig(cfg), streams: dynamodbstreams.NewFromConfig(cfg)}
}

// TestStoreClients lists, describes, scans, queries and follows the table of a
// running up from outside, and finds there what an acquire has done.
func TestStoreClients(t *testing.T) {
	t.Parallel()
	s := startUp(t, "--dynamodb-listen", "127.0.0.1:0")
	c := newStoreClient(s.endpoint(t))
	ctx := t.Context()
	tables, err := c.db.ListTables(ctx, &dynamodb.ListTablesInput{})
	require.NoError(t, err)
	require.Equal(t, []string{table.DefaultName}, tables.TableNames)
	described, err := c.db.DescribeTable(ctx, &dynamodb.DescribeTableInput{TableName: aws.String(table.DefaultName)})
	require.NoError(t, err)
	require.Equal(t, types.StreamViewTypeNewAndOldImages, described.Table.StreamSpecification.StreamViewType)
	latest := c.latest(t, *described.Table.LatestStreamArn)

	for _, line := range []string{"limits set --resource gpt-4 rpm=100/min", "acquire store-client gpt-4 rpm=1", "acquire store-client gpt-4 rpm=2"} {
		w := newWorld()
		require.Equal(t, exitDone, runWithin(t, append(strings.Fields(line), "--nats", s.nats), w), "%s\n%s", line, w.stderr)
	}
	scan, err := c.db.Scan(ctx, &dynamodb.ScanInput{TableName: described.Table.TableName})
	require.NoError(t, err)
	bucket := find(scan.Items, "BUCKET#store-client")
	require.NotNil(t, bucket)
	part := *described.Table.KeySchema[0].AttributeName
	query, err := c.db.Query(ctx, &dynamodb.QueryInput{
		TableName: described.Table.TableName, KeyConditionExpression: aws.String("#p = :p"),
		ExpressionAttributeNames: map[string]string{"#p": part}, ExpressionAttributeValues: map[string]types.AttributeValue{":p": bucket[part]},
	})
	require.NoError(t, err)
	require.Equal(t, []map[string]types.AttributeValue{bucket}, query.Items)

	var events []streamtypes.OperationType
	for _, r := range c.records(t, latest) {
		if strings.Contains(encoded(r.Dynamodb.Keys), "BUCKET#store-client") {
			events = append(events, r.EventName)
			require.Equal(t, r.EventName == streamtypes.OperationTypeModify, len(r.Dynamodb.OldImage) > 0)
			require.Greater(t, len(r.Dynamodb.NewImage), len(r.Dynamodb.Keys))
		}
	}
	require.Equal(t, []streamtypes.OperationType{streamtypes.OperationTypeInsert, streamtypes.OperationTypeModify}, events)
	require.Equal(t, exitDone, s.stop())
}

// TestDynamoDBServesStreams follows a table that `tidegate dynamodb` serves, also
// after it was stopped and started again.
func TestDynamoDBServesStreams(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	endpoint, stop := startStore(t, dir)
	c := newStoreClient(endpoint)
	require.NoError(t, table.CreateTable(t.Context(), c.db, table.DefaultName))
	put(t, c, "one")
	before := c.horizon(t)
	records := c.records(t, before)
	require.Len(t, records, 1)
	require.Equal(t, exitDone, stop())

	endpoint, stop = startStore(t, dir)
	c = newStoreClient(endpoint)
	put(t, c, "two")
	again := c.records(t, before)
	require.Len(t, again, 2, "an iterator from before is good")
	require.Equal(t, records[0], again[0])
	require.Equal(t, exitDone, stop())
}

func put(t *testing.T, c storeClient, id string) {
	t.Helper()
	described, err := c.db.DescribeTable(t.Context(), &dynamodb.DescribeTableInput{TableName: aws.String(table.DefaultName)})
	require.NoError(t, err)
	item := map[string]types.AttributeValue{}
	for _, k := range described.Table.KeySchema {
		item[*k.AttributeName] = &types.AttributeValueMemberS{Value: id}
	}
	_, err = c.db.PutItem(t.Context(), &dynamodb.PutItemInput{TableName: described.Table.TableName, Item: item})
	require.NoError(t, err)
}

// horizon is an iterator at the begin of the table's stream, found as by
// somebody who knows nothing but the table.
func (c storeClient) horizon(t *testing.T) *string {
	t.Helper()
	streams, err := c.streams.ListStreams(t.Context(), &dynamodbstreams.ListStreamsInput{TableName: aws.String(table.DefaultName)})
	require.NoError(t, err)
	require.Len(t, streams.Streams, 1)
	return c.iterator(t, *streams.Streams[0].StreamArn, streamtypes.ShardIteratorTypeTrimHorizon)
}

func (c storeClient) latest(t *testing.T, arn string) *string {
	t.Helper()
	return c.iterator(t, arn, streamtypes.ShardIteratorTypeLatest)
}

func (c storeClient) iterator(t *testing.T, arn string, kind streamtypes.ShardIteratorType) *string {
	t.Helper()
	d, err := c.streams.DescribeStream(t.Context(), &dynamodbstreams.DescribeStreamInput{StreamArn: &arn})
	require.NoError(t, err)
	require.Len(t, d.StreamDescription.Shards, 1)
	out, err := c.streams.GetShardIterator(t.Context(), &dynamodbstreams.GetShardIteratorInput{
		StreamArn: &arn, ShardId: d.StreamDescription.Shards[0].ShardId, ShardIteratorType: kind,
	})
	require.NoError(t, err)
	return out.ShardIterator
}

func (c storeClient) records(t *testing.T, iterator *string) (all []streamtypes.Record) {
	t.Helper()
	for {
		out, err := c.streams.GetRecords(t.Context(), &dynamodbstreams.GetRecordsInput{ShardIterator: iterator})
		require.NoError(t, err)
		if len(out.Records) == 0 {
			return all
		}
		all, iterator = append(all, out.Records...), out.NextShardIterator
	}
}

// find returns the item whose text has a word.
func find(items []map[string]types.AttributeValue, word string) map[string]types.AttributeValue {
	for _, item := range items {
		if strings.Contains(encoded(item), word) {
			return item
		}
	}
	return nil
}

func encoded(v any) string {
	b, err := json.Marshal(v)
	if err != nil {
		return err.Error()
	}
	return string(b)
}
