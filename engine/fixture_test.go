package engine_test

import (
	"errors"
	"fmt"
	"maps"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/aws/aws-sdk-go-v2/service/dynamodbstreams"
	"github.com/aws/smithy-go"
	"github.com/stretchr/testify/require"

	"github.com/tidegate/tidegate/engine"
	"github.com/tidegate/tidegate/internal/store"
)

// clock is a clock that stands still until it is moved.
type clock struct {
	mu  sync.Mutex
	now time.Time // guarded by mu
}

func newClock() *clock { return &clock{now: time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)} }

func (c *clock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

func (c *clock) Advance(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.now.Add(d)
}

// backend is an engine and a client of it.
type backend struct {
	db      *dynamodb.Client
	streams *dynamodbstreams.Client
	engine  *engine.Engine
	clock   *clock
	tables  *atomic.Int64
}

func newClient(o engine.Options) (*engine.Engine, *dynamodb.Client) {
	embedded := engine.New(o)
	return embedded, dynamodb.NewFromConfig(engine.Config(embedded.HTTPClient(), "us-east-1"))
}

// inProcess is an engine of its own for one test.
func inProcess(*testing.T) backend {
	c := newClock()
	embedded, db := newClient(engine.Options{Now: c.Now})
	streams := dynamodbstreams.NewFromConfig(engine.Config(embedded.HTTPClient(), "us-east-1"))
	return backend{db: db, streams: streams, engine: embedded, clock: c, tables: new(atomic.Int64)}
}

// loopback is the same through a socket.
func loopback(t *testing.T) backend {
	b := inProcess(t)
	server := httptest.NewServer(b.engine)
	t.Cleanup(server.Close)
	cfg := engine.Config(store.OwnBody(store.NewHTTPClient()), "us-east-1")
	cfg.BaseEndpoint = &server.URL
	b.db, b.streams = dynamodb.NewFromConfig(cfg), dynamodbstreams.NewFromConfig(cfg)
	return b
}

type (
	av    = types.AttributeValue
	attrs = map[string]types.AttributeValue
)

func text(s string) av { return &types.AttributeValueMemberS{Value: s} }
func num(n any) av     { return &types.AttributeValueMemberN{Value: fmt.Sprint(n)} }
func texts(s ...string) av {
	return &types.AttributeValueMemberSS{Value: s}
}
func list(l ...av) av   { return &types.AttributeValueMemberL{Value: l} }
func nested(m attrs) av { return &types.AttributeValueMemberM{Value: m} }
func numberOf(v av) string {
	if n, ok := v.(*types.AttributeValueMemberN); ok {
		return n.Value
	}
	return fmt.Sprintf("<%T>", v)
}

func textOf(v av) string {
	if s, ok := v.(*types.AttributeValueMemberS); ok {
		return s.Value
	}
	return fmt.Sprintf("<%T>", v)
}

func key(pk, sk string) attrs { return attrs{"pk": text(pk), "sk": text(sk)} }

// item is a key and pairs of name and value.
func item(pk, sk string, pairs ...any) attrs {
	m := key(pk, sk)
	for i := 0; i < len(pairs); i += 2 {
		m[pairs[i].(string)] = pairs[i+1].(av)
	}
	return m
}

func names(item attrs) string {
	return strings.Join(slices.Sorted(maps.Keys(item)), ",")
}

// table is a table of one test.
type table struct {
	t       *testing.T
	backend backend
	db      *dynamodb.Client
	name    *string
}

// definition has the key pk, sk, and with indexes gall, gkeys and gincl on g1
// and the number g1n.
func definition(name string, indexes bool) *dynamodb.CreateTableInput {
	define := func(name string, kind types.ScalarAttributeType) types.AttributeDefinition {
		return types.AttributeDefinition{AttributeName: &name, AttributeType: kind}
	}
	in := &dynamodb.CreateTableInput{
		TableName: &name, BillingMode: types.BillingModePayPerRequest,
		AttributeDefinitions: []types.AttributeDefinition{
			define("pk", types.ScalarAttributeTypeS), define("sk", types.ScalarAttributeTypeS),
		},
		KeySchema:           schema("pk", "sk"),
		StreamSpecification: &types.StreamSpecification{StreamEnabled: aws.Bool(true), StreamViewType: types.StreamViewTypeNewAndOldImages},
	}
	if !indexes {
		return in
	}
	in.AttributeDefinitions = append(in.AttributeDefinitions,
		define("g1", types.ScalarAttributeTypeS), define("g1n", types.ScalarAttributeTypeN))
	in.GlobalSecondaryIndexes = []types.GlobalSecondaryIndex{
		{IndexName: aws.String("gall"), KeySchema: schema("g1", "g1n"), Projection: &types.Projection{ProjectionType: types.ProjectionTypeAll}},
		{IndexName: aws.String("gkeys"), KeySchema: schema("g1"), Projection: &types.Projection{ProjectionType: types.ProjectionTypeKeysOnly}},
		{IndexName: aws.String("gincl"), KeySchema: schema("g1", "g1n"), Projection: &types.Projection{
			ProjectionType: types.ProjectionTypeInclude, NonKeyAttributes: []string{"extra"},
		}},
	}
	return in
}

func schema(names ...string) []types.KeySchemaElement {
	roles := []types.KeyType{types.KeyTypeHash, types.KeyTypeRange}
	out := make([]types.KeySchemaElement, len(names))
	for i, name := range names {
		out[i] = types.KeySchemaElement{AttributeName: aws.String(name), KeyType: roles[i]}
	}
	return out
}

// table makes a fresh table with three indexes.
func (b backend) table(t *testing.T) *table {
	t.Helper()
	name := fmt.Sprintf("table-%d", b.tables.Add(1))
	_, err := b.db.CreateTable(t.Context(), definition(name, true))
	require.NoError(t, err)
	return &table{t: t, backend: b, db: b.db, name: &name}
}

// streamed is the table's engine with both of its services.
func (x *table) streamed() *streamed {
	return &streamed{t: x.t, backend: x.backend, streams: x.backend.streams}
}

func (x *table) streamARN() string {
	x.t.Helper()
	out, err := x.db.DescribeTable(x.t.Context(), &dynamodb.DescribeTableInput{TableName: x.name})
	require.NoError(x.t, err)
	return aws.ToString(out.Table.LatestStreamArn)
}

func (x *table) put(items ...attrs) {
	x.t.Helper()
	for _, it := range items {
		require.NoError(x.t, x.tryPut(it))
	}
}

func (x *table) tryPut(it attrs) error {
	_, err := x.db.PutItem(x.t.Context(), &dynamodb.PutItemInput{TableName: x.name, Item: it})
	return err
}

func (x *table) get(pk, sk string) attrs {
	x.t.Helper()
	out, err := x.db.GetItem(x.t.Context(), &dynamodb.GetItemInput{TableName: x.name, Key: key(pk, sk), ConsistentRead: aws.Bool(true)})
	require.NoError(x.t, err)
	return out.Item
}

// change is an UpdateItem in short.
type change struct {
	update, condition string
	names             map[string]string
	values            attrs
	returns           types.ReturnValue
	capacity          types.ReturnConsumedCapacity
}

func (x *table) tryUpdate(pk, sk string, c change) (*dynamodb.UpdateItemOutput, error) {
	in := &dynamodb.UpdateItemInput{
		TableName: x.name, Key: key(pk, sk), UpdateExpression: &c.update,
		ExpressionAttributeNames: c.names, ExpressionAttributeValues: c.values,
		ReturnValues: c.returns, ReturnConsumedCapacity: c.capacity,
	}
	if c.condition != "" {
		in.ConditionExpression = &c.condition
		in.ReturnValuesOnConditionCheckFailure = types.ReturnValuesOnConditionCheckFailureAllOld
	}
	return x.db.UpdateItem(x.t.Context(), in)
}

func (x *table) update(pk, sk string, c change) *dynamodb.UpdateItemOutput {
	x.t.Helper()
	out, err := x.tryUpdate(pk, sk, c)
	require.NoError(x.t, err)
	return out
}

// allNew is update with the whole new item.
func (x *table) allNew(pk, sk, update string, names map[string]string, values attrs) attrs {
	x.t.Helper()
	return x.update(pk, sk, change{update: update, names: names, values: values, returns: types.ReturnValueAllNew}).Attributes
}

// queryIndex returns what an index has under g1 = g.
func (x *table) queryIndex(index, g string) []attrs {
	x.t.Helper()
	out, err := x.db.Query(x.t.Context(), &dynamodb.QueryInput{
		TableName: x.name, IndexName: &index,
		KeyConditionExpression: aws.String("g1 = :g"), ExpressionAttributeValues: attrs{":g": text(g)},
	})
	require.NoError(x.t, err)
	return out.Items
}

// query is a Query of the table in short.
func (x *table) query(condition string, values attrs, more func(*dynamodb.QueryInput)) *dynamodb.QueryOutput {
	x.t.Helper()
	in := &dynamodb.QueryInput{TableName: x.name, KeyConditionExpression: &condition, ExpressionAttributeValues: values}
	if more != nil {
		more(in)
	}
	out, err := x.db.Query(x.t.Context(), in)
	require.NoError(x.t, err)
	return out
}

func (x *table) transact(actions ...types.TransactWriteItem) error {
	_, err := x.db.TransactWriteItems(x.t.Context(), &dynamodb.TransactWriteItemsInput{TransactItems: actions})
	return err
}

// add is a transaction's action: ADD cnt n, under a condition if there is one.
func (x *table) add(pk, sk string, n any, condition string, values attrs) types.TransactWriteItem {
	u := &types.Update{
		TableName: x.name, Key: key(pk, sk), UpdateExpression: aws.String("ADD cnt :n"),
		ExpressionAttributeValues:           attrs{":n": num(n)},
		ReturnValuesOnConditionCheckFailure: types.ReturnValuesOnConditionCheckFailureAllOld,
	}
	if condition != "" {
		u.ConditionExpression = &condition
	}
	maps.Copy(u.ExpressionAttributeValues, values)
	return types.TransactWriteItem{Update: u}
}

func requireCode(t *testing.T, err error, want string) {
	t.Helper()
	var known smithy.APIError
	if !errors.As(err, &known) {
		require.Failf(t, "not an API error", "want %s, got %v", want, err)
	}
	require.Equal(t, want, known.ErrorCode(), "%v", err)
}

func units(c *types.ConsumedCapacity) float64 {
	if c == nil {
		return -1
	}
	return aws.ToFloat64(c.CapacityUnits)
}
