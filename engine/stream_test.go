package engine_test

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/aws/aws-sdk-go-v2/service/dynamodbstreams"
	streamtypes "github.com/aws/aws-sdk-go-v2/service/dynamodbstreams/types"
	"github.com/stretchr/testify/require"

	"github.com/tidegate/tidegate/engine"
)

// TestStreams runs every check on both ways to reach an engine.
func TestStreams(t *testing.T) {
	checks := map[string]func(*testing.T, *streamed){
		"changes":            checkChanges,
		"view types":         checkViewTypes,
		"nothing changed":    checkNothingChanged,
		"expired items":      checkExpiredItems,
		"batches":            checkBatches,
		"transactions":       checkTransactions,
		"iterator types":     checkIteratorTypes,
		"old iterators":      checkOldIterators,
		"expired iterators":  checkExpiredIterators,
		"pages of records":   checkRecordPages,
		"pages of streams":   checkStreamPages,
		"on and off":         checkOnAndOff,
		"dropped tables":     checkDroppedTables,
		"refused":            checkRefused,
		"records as they go": checkFollowing,
	}
	for _, name := range slices.Sorted(maps.Keys(checks)) {
		t.Run(name, func(t *testing.T) {
			t.Run("in process", func(t *testing.T) { checks[name](t, streaming(t, engine.StreamOptions{})) })
			t.Run("loopback", func(t *testing.T) { checks[name](t, streaming(t, engine.StreamOptions{}).onLoopback(t)) })
		})
	}
}

func checkChanges(t *testing.T, x *streamed) {
	tab, arn := x.plain(t, "changes")
	tab.put(item("a", "1", "v", num(1)))
	x.clock.Advance(90*time.Second + 500*time.Millisecond)
	tab.put(item("a", "1", "v", num("12345678901234567890.123456789012345678")))
	tab.update("b", "1", change{update: "SET v = :v", values: attrs{":v": num(3)}})
	_, err := x.db.DeleteItem(t.Context(), &dynamodb.DeleteItemInput{TableName: tab.name, Key: key("a", "1")})
	require.NoError(t, err)

	d := x.describe(t, arn)
	require.Equal(t, streamtypes.StreamStatusEnabled, d.StreamStatus)
	require.Equal(t, streamtypes.StreamViewTypeNewAndOldImages, d.StreamViewType)
	require.Equal(t, "changes", *d.TableName)
	require.Equal(t, arn, *d.StreamArn)
	require.True(t, strings.HasSuffix(arn, "/stream/"+*d.StreamLabel))
	require.Equal(t, "pk", *d.KeySchema[0].AttributeName)
	require.Equal(t, streamtypes.KeyTypeRange, d.KeySchema[1].KeyType)
	require.NotNil(t, d.CreationRequestDateTime)
	require.Len(t, d.Shards, 1)
	require.Nil(t, d.Shards[0].ParentShardId)
	require.Nil(t, d.Shards[0].SequenceNumberRange.EndingSequenceNumber)

	records := x.all(t, arn)
	require.Equal(t, []string{
		"INSERT a/1 ->1", "MODIFY a/1 1>12345678901234567890.123456789012345678", "INSERT b/1 ->3",
		"REMOVE a/1 12345678901234567890.123456789012345678>-",
	}, shorts(records))
	require.True(t, slices.IsSorted(sequences(records)))
	require.LessOrEqual(t, *d.Shards[0].SequenceNumberRange.StartingSequenceNumber, *records[0].Dynamodb.SequenceNumber)
	ids := map[string]bool{}
	for _, r := range records {
		ids[*r.EventID] = true
		require.GreaterOrEqual(t, len(*r.Dynamodb.SequenceNumber), 21)
		require.Equal(t, "us-east-1", *r.AwsRegion)
		require.Equal(t, "1.1", *r.EventVersion)
		require.Equal(t, "aws:dynamodb", *r.EventSource)
		require.Equal(t, []string{"pk", "sk"}, attributeNames(r.Dynamodb.Keys))
		require.Equal(t, streamtypes.StreamViewTypeNewAndOldImages, r.Dynamodb.StreamViewType)
		require.Nil(t, r.UserIdentity)
	}
	require.Len(t, ids, 4)
	require.EqualValues(t, 6+6+1+2, *records[0].Dynamodb.SizeBytes, "keys, then the item")
	require.Equal(t, x.clock.Now().Truncate(time.Second), records[1].Dynamodb.ApproximateCreationDateTime.UTC())
}

func checkViewTypes(t *testing.T, x *streamed) {
	for view, want := range map[types.StreamViewType][]string{
		types.StreamViewTypeNewAndOldImages: {"INSERT a/1 ->1", "MODIFY a/1 1>2", "REMOVE a/1 2>-"},
		types.StreamViewTypeNewImage:        {"INSERT a/1 ->1", "MODIFY a/1 ->2", "REMOVE a/1 ->-"},
		types.StreamViewTypeOldImage:        {"INSERT a/1 ->-", "MODIFY a/1 1>-", "REMOVE a/1 2>-"},
		types.StreamViewTypeKeysOnly:        {"INSERT a/1 ->-", "MODIFY a/1 ->-", "REMOVE a/1 ->-"},
	} {
		name := "view-" + string(view)
		arn := x.create(t, name, view)
		tab := &table{t: t, backend: x.backend, db: x.db, name: &name}
		tab.put(item("a", "1", "v", num(1)), item("a", "1", "v", num(2)))
		_, err := x.db.DeleteItem(t.Context(), &dynamodb.DeleteItemInput{TableName: &name, Key: key("a", "1")})
		require.NoError(t, err)
		records := x.all(t, arn)
		require.Equal(t, want, shorts(records), view)
		for _, r := range records {
			d := r.Dynamodb
			require.Equal(t, string(view), string(d.StreamViewType))
			size := int64(6)
			for _, image := range []map[string]streamtypes.AttributeValue{d.OldImage, d.NewImage} {
				if len(image) > 0 {
					size += 6 + 1 + 2
				}
			}
			require.Equal(t, size, *d.SizeBytes)
		}
	}
}

func checkNothingChanged(t *testing.T, x *streamed) {
	tab, arn := x.plain(t, "nothing")
	tab.put(item("a", "1", "v", num(1)), item("a", "1", "v", num("1.0")))
	tab.update("a", "1", change{update: "SET v = v + :n", values: attrs{":n": num(0)}})
	_, err := x.db.DeleteItem(t.Context(), &dynamodb.DeleteItemInput{TableName: tab.name, Key: key("a", "2")})
	require.NoError(t, err)
	_, err = tab.tryUpdate("a", "1", change{update: "SET v = :v", condition: "v = :n", values: attrs{":v": num(2), ":n": num(9)}})
	requireCode(t, err, "ConditionalCheckFailedException")
	require.Error(t, tab.transact(tab.add("a", "1", 1, "", nil), tab.add("a", "2", 1, "cnt = :c", attrs{":c": num(1)})))
	require.Equal(t, []string{"INSERT a/1 ->1"}, shorts(x.all(t, arn)))
}

func checkExpiredItems(t *testing.T, x *streamed) {
	tab, arn := x.plain(t, "expiring")
	_, err := x.db.UpdateTimeToLive(t.Context(), &dynamodb.UpdateTimeToLiveInput{
		TableName:               tab.name,
		TimeToLiveSpecification: &types.TimeToLiveSpecification{AttributeName: aws.String("v"), Enabled: aws.Bool(true)},
	})
	require.NoError(t, err)
	tab.put(item("a", "1", "v", num(x.clock.Now().Unix())), item("a", "2", "v", num(x.clock.Now().Unix())))
	_, err = x.db.DeleteItem(t.Context(), &dynamodb.DeleteItemInput{TableName: tab.name, Key: key("a", "2")})
	require.NoError(t, err)
	require.Equal(t, 1, x.engine.Expire(x.clock.Now()))
	records := x.all(t, arn)
	require.Len(t, records, 4)
	require.Nil(t, records[2].UserIdentity, "deleted by hand")
	require.Equal(t, streamtypes.OperationTypeRemove, records[3].EventName)
	require.Equal(t, "Service", *records[3].UserIdentity.Type)
	require.Equal(t, "dynamodb.amazonaws.com", *records[3].UserIdentity.PrincipalId)
}

func checkBatches(t *testing.T, x *streamed) {
	tab, arn := x.plain(t, "batches")
	var puts []types.WriteRequest
	var want []string
	for i := range 25 {
		puts = append(puts, types.WriteRequest{PutRequest: &types.PutRequest{Item: item("a", fmt.Sprint(i), "v", num(i))}})
		want = append(want, fmt.Sprintf("INSERT a/%d ->%d", i, i))
	}
	_, err := x.db.BatchWriteItem(t.Context(), &dynamodb.BatchWriteItemInput{RequestItems: map[string][]types.WriteRequest{*tab.name: puts}})
	require.NoError(t, err)
	require.Equal(t, want, shorts(x.all(t, arn)))
}

func checkTransactions(t *testing.T, x *streamed) {
	one, first := x.plain(t, "one")
	two, second := x.plain(t, "two")
	put := func(tab *table, sk string) types.TransactWriteItem {
		return types.TransactWriteItem{Put: &types.Put{TableName: tab.name, Item: item("a", sk, "v", text(sk))}}
	}
	in := &dynamodb.TransactWriteItemsInput{
		ClientRequestToken: aws.String("once"),
		TransactItems:      []types.TransactWriteItem{put(one, "1"), put(two, "2"), put(one, "0"), put(two, "3")},
	}
	for range 2 { // a repeat is no change
		_, err := x.db.TransactWriteItems(t.Context(), in)
		require.NoError(t, err)
	}
	a, b := x.all(t, first), x.all(t, second)
	require.Equal(t, []string{"INSERT a/1 ->1", "INSERT a/0 ->0"}, shorts(a))
	require.Equal(t, []string{"INSERT a/2 ->2", "INSERT a/3 ->3"}, shorts(b))
	require.Less(t, *a[0].Dynamodb.SequenceNumber, *b[0].Dynamodb.SequenceNumber)
	require.Less(t, *b[0].Dynamodb.SequenceNumber, *a[1].Dynamodb.SequenceNumber)
}

func checkIteratorTypes(t *testing.T, x *streamed) {
	tab, arn := x.plain(t, "types")
	for i := range 4 {
		tab.put(item("a", fmt.Sprint(i), "v", num(i)))
	}
	shard := x.describe(t, arn).Shards[0].ShardId
	at := sequences(x.all(t, arn))[1]
	latest := x.iterator(t, arn, shard, from{kind: streamtypes.ShardIteratorTypeLatest})
	read := func(f from) []string {
		records, next := x.drain(t, x.iterator(t, arn, shard, f))
		require.NotNil(t, next, "the shard is open")
		return shorts(records)
	}
	require.Len(t, read(horizon), 4)
	require.Equal(t, []string{"INSERT a/1 ->1", "INSERT a/2 ->2", "INSERT a/3 ->3"},
		read(from{streamtypes.ShardIteratorTypeAtSequenceNumber, at}))
	require.Equal(t, []string{"INSERT a/2 ->2", "INSERT a/3 ->3"}, read(from{streamtypes.ShardIteratorTypeAfterSequenceNumber, at}))
	require.Empty(t, x.page(t, latest, 0).Records)
	tab.put(item("a", "4", "v", num(4)))
	records, _ := x.drain(t, latest)
	require.Equal(t, []string{"INSERT a/4 ->4"}, shorts(records))
}

func checkOldIterators(t *testing.T, x *streamed) {
	tab, arn := x.plain(t, "old")
	for i := range 5 {
		tab.put(item("a", fmt.Sprint(i), "v", num(i)))
	}
	i := x.iterator(t, arn, x.describe(t, arn).Shards[0].ShardId, horizon)
	first := x.page(t, i, 2)
	require.Len(t, first.Records, 2)
	require.Equal(t, []string{"INSERT a/2 ->2", "INSERT a/3 ->3"}, shorts(x.page(t, first.NextShardIterator, 2).Records))
	require.Equal(t, first.Records, x.page(t, i, 2).Records, "the same again")
	require.Equal(t, []string{"INSERT a/2 ->2", "INSERT a/3 ->3"}, shorts(x.page(t, first.NextShardIterator, 2).Records))
}

func checkExpiredIterators(t *testing.T, x *streamed) {
	tab, arn := x.plain(t, "expired")
	tab.put(item("a", "1", "v", num(1)))
	i := x.iterator(t, arn, x.describe(t, arn).Shards[0].ShardId, horizon)
	x.clock.Advance(15 * time.Minute)
	next := x.page(t, i, 0).NextShardIterator
	x.clock.Advance(time.Millisecond)
	_, err := x.streams.GetRecords(t.Context(), &dynamodbstreams.GetRecordsInput{ShardIterator: i})
	var expired *streamtypes.ExpiredIteratorException
	require.ErrorAs(t, err, &expired)
	x.page(t, next, 0) // has a life of its own
}

func checkRecordPages(t *testing.T, x *streamed) {
	tab, arn := x.plain(t, "pages")
	for i := range 1100 {
		tab.put(item("a", fmt.Sprint(i), "v", num(i)))
	}
	i := x.iterator(t, arn, x.describe(t, arn).Shards[0].ShardId, horizon)
	out := x.page(t, i, 0)
	require.Len(t, out.Records, 1000)
	require.Len(t, x.page(t, out.NextShardIterator, 1000).Records, 100)

	big, arn := x.plain(t, "big")
	for i := range 12 {
		big.put(item("a", fmt.Sprint(i), "v", text(strings.Repeat("x", 100_000))))
	}
	i = x.iterator(t, arn, x.describe(t, arn).Shards[0].ShardId, horizon)
	out = x.page(t, i, 0)
	require.Len(t, out.Records, 10, "a page is 1 MB")
	out = x.page(t, out.NextShardIterator, 0)
	require.Len(t, out.Records, 2)
}

func checkStreamPages(t *testing.T, x *streamed) {
	var want []string
	for i := range 5 {
		want = append(want, x.create(t, fmt.Sprintf("paged-%d", i), types.StreamViewTypeKeysOnly))
	}
	var got []string
	in := &dynamodbstreams.ListStreamsInput{Limit: aws.Int32(2)}
	for pages := 1; ; pages++ {
		out, err := x.streams.ListStreams(t.Context(), in)
		require.NoError(t, err)
		for _, s := range out.Streams {
			got = append(got, *s.StreamArn)
			require.True(t, strings.HasSuffix(*s.StreamArn, *s.TableName+"/stream/"+*s.StreamLabel))
		}
		if in.ExclusiveStartStreamArn = out.LastEvaluatedStreamArn; in.ExclusiveStartStreamArn == nil {
			require.Equal(t, 3, pages)
			break
		}
	}
	require.Equal(t, want, got)
	out, err := x.streams.ListStreams(t.Context(), &dynamodbstreams.ListStreamsInput{TableName: aws.String("paged-3")})
	require.NoError(t, err)
	require.Len(t, out.Streams, 1)
	require.Equal(t, want[3], *out.Streams[0].StreamArn)
	out, err = x.streams.ListStreams(t.Context(), &dynamodbstreams.ListStreamsInput{TableName: aws.String("unknown")})
	require.NoError(t, err)
	require.Empty(t, out.Streams)
}

func (x *streamed) setStream(t *testing.T, table *string, on bool) *types.TableDescription {
	t.Helper()
	spec := &types.StreamSpecification{StreamEnabled: &on}
	if on {
		spec.StreamViewType = types.StreamViewTypeNewImage
	}
	out, err := x.db.UpdateTable(t.Context(), &dynamodb.UpdateTableInput{TableName: table, StreamSpecification: spec})
	require.NoError(t, err)
	return out.TableDescription
}

func checkOnAndOff(t *testing.T, x *streamed) {
	tab, first := x.plain(t, "switched")
	tab.put(item("a", "1", "v", num(1)))
	off := x.setStream(t, tab.name, false)
	require.Nil(t, off.StreamSpecification)
	require.Equal(t, first, *off.LatestStreamArn)
	tab.put(item("a", "2", "v", num(2)))

	d := x.describe(t, first)
	require.Equal(t, streamtypes.StreamStatusDisabled, d.StreamStatus)
	require.NotNil(t, d.Shards[0].SequenceNumberRange.EndingSequenceNumber)
	records, next := x.drain(t, x.iterator(t, first, d.Shards[0].ShardId, horizon))
	require.Equal(t, []string{"INSERT a/1 ->1"}, shorts(records), "it stays readable")
	require.Nil(t, next, "and has an end")

	on := x.setStream(t, tab.name, true) // in the same millisecond
	require.NotEqual(t, first, *on.LatestStreamArn)
	require.NotEqual(t, *d.StreamLabel, *on.LatestStreamLabel)
	tab.put(item("a", "3", "v", num(3)))
	require.Equal(t, []string{"INSERT a/3 ->3"}, shorts(x.all(t, *on.LatestStreamArn)))
	require.Equal(t, []string{"INSERT a/1 ->1"}, shorts(x.all(t, first)))
	out, err := x.streams.ListStreams(t.Context(), &dynamodbstreams.ListStreamsInput{TableName: tab.name})
	require.NoError(t, err)
	require.Len(t, out.Streams, 2)

	_, err = x.db.UpdateTable(t.Context(), &dynamodb.UpdateTableInput{TableName: tab.name, StreamSpecification: &types.StreamSpecification{
		StreamEnabled: aws.Bool(true), StreamViewType: types.StreamViewTypeKeysOnly,
	}})
	requireCode(t, err, "ValidationException")
	x.clock.Advance(25 * time.Hour)
	tab.put(item("a", "4", "v", num(4)))
	_, err = x.streams.DescribeStream(t.Context(), &dynamodbstreams.DescribeStreamInput{StreamArn: &first})
	requireCode(t, err, "ResourceNotFoundException")
	require.Equal(t, []string{"INSERT a/4 ->4"}, shorts(x.all(t, *on.LatestStreamArn)))
}

func checkDroppedTables(t *testing.T, x *streamed) {
	tab, first := x.plain(t, "dropped")
	tab.put(item("a", "1", "v", num(1)))
	_, err := x.db.DeleteTable(t.Context(), &dynamodb.DeleteTableInput{TableName: tab.name})
	require.NoError(t, err)
	again, second := x.plain(t, "dropped")
	require.NotEqual(t, first, second)
	again.put(item("a", "1", "v", num(2)))
	require.Equal(t, []string{"INSERT a/1 ->1"}, shorts(x.all(t, first)))
	require.Equal(t, []string{"INSERT a/1 ->2"}, shorts(x.all(t, second)))
}

func checkFollowing(t *testing.T, x *streamed) {
	tab, arn := x.plain(t, "followed")
	i := x.iterator(t, arn, x.describe(t, arn).Shards[0].ShardId, from{kind: streamtypes.ShardIteratorTypeLatest})
	for n := range 200 {
		tab.put(item("a", "1", "v", num(n)))
		out := x.page(t, i, 0)
		require.Len(t, out.Records, 1)
		require.Contains(t, short(out.Records[0]), fmt.Sprintf(">%d", n))
		i = out.NextShardIterator
	}
}

func checkRefused(t *testing.T, x *streamed) {
	tab, arn := x.plain(t, "refused")
	tab.put(item("a", "1", "v", num(1)))
	shard := *x.describe(t, arn).Shards[0].ShardId
	good := *x.iterator(t, arn, &shard, horizon)
	number := sequences(x.all(t, arn))[0]
	iterator := func(arn, shard, kind, sequence string) string {
		return fmt.Sprintf(`{"StreamArn":%q,"ShardId":%q,"ShardIteratorType":%q,"SequenceNumber":%s}`, arn, shard, kind, sequence)
	}
	unknown := arn[:len(arn)-3] + "999"
	for _, c := range []struct{ operation, body, code, want string }{
		{"ListStreams", `{"Limit":0}`, "ValidationException", "limit"},
		{"ListStreams", `{"Limit":101}`, "ValidationException", "limit"},
		{"ListStreams", `{"TableName":"a b"}`, "ValidationException", "a b"},
		{"ListStreams", `{"Limit":"x"}`, "SerializationException", "Limit"},
		{"ListStreams", ``, "SerializationException", "body"},
		{"DescribeStream", `{}`, "ValidationException", "streamArn"},
		{"DescribeStream", `{"StreamArn":"` + unknown + `"}`, "ResourceNotFoundException", "999"},
		{"DescribeStream", `{"StreamArn":"` + arn + `","Limit":101}`, "ValidationException", "limit"},
		{"DescribeStream", `{"StreamArn":"` + arn + `","ExclusiveStartShardId":"x"}`, "ValidationException", "exclusiveStartShardId"},
		{"DescribeStream", `{"StreamArn":"` + arn + `","ShardFilter":{"Type":"OLD"}}`, "ValidationException", "CHILD_SHARDS"},
		{"GetShardIterator", iterator(unknown, shard, "LATEST", "null"), "ResourceNotFoundException", "999"},
		{"GetShardIterator", iterator(arn, shard[:len(shard)-1]+"9", "LATEST", "null"), "ResourceNotFoundException", "Shard"},
		{"GetShardIterator", iterator(arn, "x", "LATEST", "null"), "ValidationException", "shardId"},
		{"GetShardIterator", iterator(arn, shard, "OLDEST", "null"), "ValidationException", "shardIteratorType"},
		{"GetShardIterator", iterator(arn, shard, "", "null"), "ValidationException", "shardIteratorType"},
		{"GetShardIterator", iterator(arn, shard, "AT_TIMESTAMP", "null"), "ValidationException", "not supported"},
		{"GetShardIterator", iterator(arn, shard, "AT_SEQUENCE_NUMBER", "null"), "ValidationException", "SequenceNumber is required"},
		{"GetShardIterator", iterator(arn, shard, "AFTER_SEQUENCE_NUMBER", `"12"`), "ValidationException", "sequenceNumber"},
		{"GetShardIterator", iterator(arn, shard, "AFTER_SEQUENCE_NUMBER", `"`+strings.Repeat("x", 21)+`"`), "ValidationException", "sequenceNumber"},
		{"GetShardIterator", iterator(arn, shard, "AT_SEQUENCE_NUMBER", `"`+strings.Repeat("0", 21)+`"`), "ValidationException", "range"},
		{"GetShardIterator", iterator(arn, shard, "LATEST", `"`+number+`"`), "ValidationException", "only for"},
		{"GetRecords", `{}`, "ValidationException", "Invalid ShardIterator"},
		{"GetRecords", `{"ShardIterator":"AAAA"}`, "ValidationException", "Invalid ShardIterator"},
		{"GetRecords", `{"ShardIterator":"` + arn + `|1|e30="}`, "ValidationException", "Invalid ShardIterator"},
		{"GetRecords", `{"ShardIterator":"` + strings.Replace(good, arn, unknown, 1) + `"}`, "ResourceNotFoundException", "999"},
		{"GetRecords", `{"ShardIterator":"` + good + `","Limit":1001}`, "ValidationException", "limit"},
		{"GetRecords", `{"ShardIterator":"` + good + `","Limit":0}`, "ValidationException", "limit"},
		{"PutRecord", `{}`, "UnknownOperationException", "PutRecord"},
	} {
		w := rawCall(x.engine, "DynamoDBStreams_20120810."+c.operation, c.body)
		require.Equal(t, 400, w.Code, "%s %s: %s", c.operation, c.body, w.Body)
		require.Contains(t, w.Body.String(), "#"+c.code+`"`, "%s %s", c.operation, c.body)
		require.Contains(t, w.Body.String(), c.want, "%s %s", c.operation, c.body)
	}
}
