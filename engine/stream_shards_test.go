package engine_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodbstreams"
	streamtypes "github.com/aws/aws-sdk-go-v2/service/dynamodbstreams/types"
	"github.com/stretchr/testify/require"

	"github.com/tidegate/tidegate/engine"
)

// TestShardsRollOver fills shards one after the other: each but the last is
// closed, ends, and is the parent of the next, where an item's later records are.
func TestShardsRollOver(t *testing.T) {
	x := streaming(t, engine.StreamOptions{ShardRecords: 5, OpenShards: 1})
	tab, arn := x.plain(t, "rolled")
	for i := range 12 {
		tab.put(item("a", "1", "v", num(i)))
	}
	shards := x.describe(t, arn).Shards
	require.Len(t, shards, 3)
	var all []streamtypes.Record
	for i, s := range shards {
		records, next := x.drain(t, x.iterator(t, arn, s.ShardId, horizon))
		numbers := sequences(records)
		require.Equal(t, numbers[0], *s.SequenceNumberRange.StartingSequenceNumber)
		if i > 0 {
			require.Equal(t, shards[i-1].ShardId, s.ParentShardId)
		}
		if i == 2 {
			require.NotNil(t, next)
			require.Nil(t, s.SequenceNumberRange.EndingSequenceNumber)
			require.Len(t, records, 2)
		} else {
			require.Nil(t, next, "a closed shard has an end")
			require.Equal(t, numbers[4], *s.SequenceNumberRange.EndingSequenceNumber)
		}
		all = append(all, records...)
	}
	require.Len(t, all, 12)
	for i, r := range all[1:] {
		require.Equal(t, fmt.Sprintf("MODIFY a/1 %d>%d", i, i+1), short(r))
	}

	last := from{streamtypes.ShardIteratorTypeAfterSequenceNumber, *shards[0].SequenceNumberRange.EndingSequenceNumber}
	for _, at := range []from{last, {kind: streamtypes.ShardIteratorTypeLatest}} {
		out := x.page(t, x.iterator(t, arn, shards[0].ShardId, at), 0)
		require.Empty(t, out.Records)
		require.Nil(t, out.NextShardIterator)
	}
	exact := x.page(t, x.iterator(t, arn, shards[0].ShardId, horizon), 5)
	require.Nil(t, exact.NextShardIterator, "nothing can be behind the page")
	_, err := x.tryIterator(t, arn, shards[0].ShardId, from{streamtypes.ShardIteratorTypeAtSequenceNumber, sequences(all)[7]})
	requireCode(t, err, "ValidationException")
}

// TestShardsSplit writes many items until there are as many open shards as may
// be: each item's records are in its shard and that one's ancestors, in order.
func TestShardsSplit(t *testing.T) {
	const items, rounds = 40, 20
	x := streaming(t, engine.StreamOptions{ShardRecords: 50, OpenShards: 4})
	tab, arn := x.plain(t, "split")
	for v := range rounds {
		for i := range items {
			tab.put(item(fmt.Sprint("item-", i), "1", "v", num(v)))
		}
	}
	children, open := map[string]int{}, 0
	holders := map[string][]string{} // shards that have the item, parents first
	parent := map[string]string{}
	latest := map[string]int{}
	shards := x.describe(t, arn).Shards
	for _, s := range shards {
		if s.ParentShardId != nil {
			children[*s.ParentShardId]++
			parent[*s.ShardId] = *s.ParentShardId
		}
		if s.SequenceNumberRange.EndingSequenceNumber == nil {
			open++
		}
		records, _ := x.drain(t, x.iterator(t, arn, s.ShardId, horizon))
		for _, r := range records {
			name := textOfStream(r.Dynamodb.Keys["pk"])
			want := fmt.Sprintf("MODIFY %s/1 %d>%d", name, latest[name], latest[name]+1)
			if len(holders[name]) == 0 {
				want = fmt.Sprintf("INSERT %s/1 ->0", name)
			} else {
				latest[name]++
			}
			require.Equal(t, want, short(r))
			if held := holders[name]; len(held) == 0 || held[len(held)-1] != *s.ShardId {
				if len(held) > 0 {
					require.Equal(t, held[len(held)-1], parent[*s.ShardId], "an item moves from parent to child")
				}
				holders[name] = append(held, *s.ShardId)
			}
		}
	}
	require.Len(t, latest, items)
	for name, v := range latest {
		require.Equal(t, rounds-1, v, name)
	}
	require.Equal(t, 4, open)
	require.Equal(t, 2, children[*shards[0].ShardId])

	out, err := x.streams.DescribeStream(t.Context(), &dynamodbstreams.DescribeStreamInput{
		StreamArn: &arn, ShardFilter: &streamtypes.ShardFilter{Type: streamtypes.ShardFilterTypeChildShards, ShardId: shards[0].ShardId},
	})
	require.NoError(t, err)
	require.Equal(t, shards[1:3], out.StreamDescription.Shards)
	var paged []streamtypes.Shard
	in := &dynamodbstreams.DescribeStreamInput{StreamArn: &arn, Limit: aws.Int32(2)}
	for more := true; more; more = in.ExclusiveStartShardId != nil {
		out, err := x.streams.DescribeStream(t.Context(), in)
		require.NoError(t, err)
		require.LessOrEqual(t, len(out.StreamDescription.Shards), 2)
		paged = append(paged, out.StreamDescription.Shards...)
		in.ExclusiveStartShardId = out.StreamDescription.LastEvaluatedShardId
	}
	require.Equal(t, shards, paged)
}

func textOfStream(v streamtypes.AttributeValue) string {
	if s, ok := v.(*streamtypes.AttributeValueMemberS); ok {
		return s.Value
	}
	return fmt.Sprintf("<%T>", v)
}

// TestShardsGrowOld closes a shard by its age, with one child: age is no load.
func TestShardsGrowOld(t *testing.T) {
	x := streaming(t, engine.StreamOptions{})
	tab, arn := x.plain(t, "aged")
	x.clock.Advance(5 * time.Hour)
	tab.put(item("a", "1", "v", num(1))) // an empty shard has no child
	require.Len(t, x.describe(t, arn).Shards, 1)
	tab.put(item("b", "1", "v", num(1)))
	shards := x.describe(t, arn).Shards
	require.Len(t, shards, 2)
	require.Equal(t, shards[0].ShardId, shards[1].ParentShardId)
	require.Equal(t, []string{"INSERT a/1 ->1", "INSERT b/1 ->1"}, shorts(x.all(t, arn)))
}

// TestTransactionOverARollOver has a transaction whose changes are on both sides.
func TestTransactionOverARollOver(t *testing.T) {
	x := streaming(t, engine.StreamOptions{ShardRecords: 2, OpenShards: 1})
	tab, arn := x.plain(t, "crossing")
	require.NoError(t, tab.transact(tab.add("a", "1", 1, "", nil), tab.add("a", "2", 1, "", nil), tab.add("a", "3", 1, "", nil),
		tab.add("a", "4", 1, "", nil), tab.add("a", "5", 1, "", nil)))
	require.Len(t, x.describe(t, arn).Shards, 3)
	require.Equal(t, []string{"INSERT a/1 ->-", "INSERT a/2 ->-", "INSERT a/3 ->-", "INSERT a/4 ->-", "INSERT a/5 ->-"}, shorts(x.all(t, arn)))
}

// TestRetentionByAge lets records grow old: what is trimmed is refused, unless
// nothing would be missed, and closed shards without records are gone.
func TestRetentionByAge(t *testing.T) {
	x := streaming(t, engine.StreamOptions{ShardRecords: 3, OpenShards: 1})
	tab, arn := x.plain(t, "aging")
	put := func(i int) { tab.put(item("a", "1", "v", num(i))) }
	for i := range 5 {
		put(i)
	}
	old := x.describe(t, arn).Shards
	numbers := sequences(x.all(t, arn))
	at := func(shard int, kind streamtypes.ShardIteratorType, n int) error {
		_, err := x.tryIterator(t, arn, old[shard].ShardId, from{kind, numbers[n]})
		return err
	}
	x.clock.Advance(24*time.Hour - 10*time.Minute)
	held := x.iterator(t, arn, old[1].ShardId, from{streamtypes.ShardIteratorTypeAtSequenceNumber, numbers[3]})
	behind := x.iterator(t, arn, old[1].ShardId, from{streamtypes.ShardIteratorTypeAfterSequenceNumber, numbers[4]})
	require.Len(t, x.all(t, arn), 5)
	x.clock.Advance(11 * time.Minute)

	_, err := x.streams.GetRecords(t.Context(), &dynamodbstreams.GetRecordsInput{ShardIterator: held})
	var trimmed *streamtypes.TrimmedDataAccessException
	require.ErrorAs(t, err, &trimmed)
	require.Empty(t, x.page(t, behind, 0).Records, "who has read all has missed nothing")
	require.Empty(t, x.all(t, arn))
	now := x.describe(t, arn).Shards
	require.Equal(t, old[1:], now, "the closed shard is gone")
	requireCode(t, at(0, streamtypes.ShardIteratorTypeAfterSequenceNumber, 2), "ResourceNotFoundException")
	require.ErrorAs(t, at(1, streamtypes.ShardIteratorTypeAtSequenceNumber, 4), &trimmed)
	require.ErrorAs(t, at(1, streamtypes.ShardIteratorTypeAfterSequenceNumber, 3), &trimmed)
	require.NoError(t, at(1, streamtypes.ShardIteratorTypeAfterSequenceNumber, 4))
	put(5)
	require.Equal(t, []string{"MODIFY a/1 4>5"}, shorts(x.all(t, arn)))
}

// TestRetentionByBytes bounds what an engine in memory keeps.
func TestRetentionByBytes(t *testing.T) {
	x := streaming(t, engine.StreamOptions{RetentionBytes: 16 << 10, ShardRecords: 100})
	tab, arn := x.plain(t, "large")
	const records = 2000
	for i := range records {
		tab.put(item("a", "1", "v", num(1000+i))) // images of 10 bytes each
	}
	got := shorts(x.all(t, arn))
	require.Less(t, len(got), 16<<10/20+1)
	require.Greater(t, len(got), 16<<10/20*3/4)
	require.Equal(t, fmt.Sprintf("MODIFY a/1 %d>%d", 998+records, 999+records), got[len(got)-1])
	require.LessOrEqual(t, len(x.describe(t, arn).Shards), 14, "about 8 with records, and open ones")
}
