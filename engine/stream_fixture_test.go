package engine_test

import (
	"fmt"
	"maps"
	"net/http/httptest"
	"slices"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/aws/aws-sdk-go-v2/service/dynamodbstreams"
	streamtypes "github.com/aws/aws-sdk-go-v2/service/dynamodbstreams/types"
	"github.com/stretchr/testify/require"

	"github.com/tidegate/tidegate/engine"
	"github.com/tidegate/tidegate/internal/store"
)

// streamed is an engine with clients of both services.
type streamed struct {
	backend
	t       require.TestingT
	streams *dynamodbstreams.Client
}

func clientsOf(t require.TestingT, e *engine.Engine, c *clock) *streamed {
	cfg := engine.Config(e.HTTPClient(), "us-east-1")
	return &streamed{
		t: t, backend: backend{db: dynamodb.NewFromConfig(cfg), engine: e, clock: c},
		streams: dynamodbstreams.NewFromConfig(cfg),
	}
}

// streaming is an engine in memory.
func streaming(t *testing.T, o engine.StreamOptions) *streamed {
	t.Helper()
	c := newClock()
	return clientsOf(t, engine.New(engine.Options{Now: c.Now, Streams: o}), c)
}

// onLoopback sends what follows through a socket.
func (x *streamed) onLoopback(t *testing.T) *streamed {
	t.Helper()
	server := httptest.NewServer(x.engine)
	t.Cleanup(server.Close)
	cfg := engine.Config(store.OwnBody(store.NewHTTPClient()), "us-east-1")
	cfg.BaseEndpoint = &server.URL
	x.db, x.streams = dynamodb.NewFromConfig(cfg), dynamodbstreams.NewFromConfig(cfg)
	return x
}

// create makes a table and returns the ARN of its stream.
func (x *streamed) create(t *testing.T, name string, view types.StreamViewType) string {
	t.Helper()
	in := definition(name, false)
	in.StreamSpecification.StreamViewType = view
	out, err := x.db.CreateTable(t.Context(), in)
	require.NoError(t, err)
	return *out.TableDescription.LatestStreamArn
}

// plain makes a table with both images and returns a way to write to it.
func (x *streamed) plain(t *testing.T, name string) (*table, string) {
	t.Helper()
	arn := x.create(t, name, types.StreamViewTypeNewAndOldImages)
	return &table{t: t, backend: x.backend, db: x.db, name: &name}, arn
}

func (x *streamed) describe(t *testing.T, arn string) *streamtypes.StreamDescription {
	t.Helper()
	out, err := x.streams.DescribeStream(t.Context(), &dynamodbstreams.DescribeStreamInput{StreamArn: &arn})
	require.NoError(t, err)
	return out.StreamDescription
}

// from is where an iterator begins; a type other than those with a sequence
// number has none.
type from struct {
	kind     streamtypes.ShardIteratorType
	sequence string
}

func (x *streamed) tryIterator(t *testing.T, arn string, shard *string, at from) (*string, error) {
	t.Helper()
	in := &dynamodbstreams.GetShardIteratorInput{StreamArn: &arn, ShardId: shard, ShardIteratorType: at.kind}
	if at.sequence != "" {
		in.SequenceNumber = &at.sequence
	}
	out, err := x.streams.GetShardIterator(t.Context(), in)
	if err != nil {
		return nil, err
	}
	return out.ShardIterator, nil
}

func (x *streamed) iterator(t *testing.T, arn string, shard *string, at from) *string {
	t.Helper()
	i, err := x.tryIterator(t, arn, shard, at)
	require.NoError(t, err)
	return i
}

func (x *streamed) page(t *testing.T, iterator *string, limit int32) *dynamodbstreams.GetRecordsOutput {
	t.Helper()
	in := &dynamodbstreams.GetRecordsInput{ShardIterator: iterator}
	if limit > 0 {
		in.Limit = &limit
	}
	out, err := x.streams.GetRecords(t.Context(), in)
	require.NoError(t, err)
	return out
}

// drain reads a shard until it ends or an empty page.
func (x *streamed) drain(t *testing.T, i *string) (records []streamtypes.Record, next *string) {
	t.Helper()
	for i != nil {
		out := x.page(t, i, 0)
		records = append(records, out.Records...)
		if i = out.NextShardIterator; len(out.Records) == 0 {
			return records, i
		}
	}
	return records, nil
}

// horizon is the oldest record there is.
var horizon = from{kind: streamtypes.ShardIteratorTypeTrimHorizon}

// all reads a whole stream, parents before children.
func (x *streamed) all(t *testing.T, arn string) []streamtypes.Record {
	t.Helper()
	var out []streamtypes.Record
	for _, shard := range x.describe(t, arn).Shards {
		records, _ := x.drain(t, x.iterator(t, arn, shard.ShardId, horizon))
		out = append(out, records...)
	}
	return out
}

// short is a record in a line: name, key, and v before and after.
func short(r streamtypes.Record) string {
	text := func(item map[string]streamtypes.AttributeValue, name string) string {
		switch v := item[name].(type) {
		case *streamtypes.AttributeValueMemberS:
			return v.Value
		case *streamtypes.AttributeValueMemberN:
			return v.Value
		}
		return "-"
	}
	d := r.Dynamodb
	return fmt.Sprintf("%s %s/%s %s>%s", r.EventName, text(d.Keys, "pk"), text(d.Keys, "sk"), text(d.OldImage, "v"), text(d.NewImage, "v"))
}

func shorts(records []streamtypes.Record) []string {
	out := make([]string, len(records))
	for i, r := range records {
		out[i] = short(r)
	}
	return out
}

func sequences(records []streamtypes.Record) []string {
	out := make([]string, len(records))
	for i, r := range records {
		out[i] = aws.ToString(r.Dynamodb.SequenceNumber)
	}
	return out
}

func attributeNames(item map[string]streamtypes.AttributeValue) []string {
	return slices.Sorted(maps.Keys(item))
}
