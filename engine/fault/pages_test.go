package fault_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/aws/aws-sdk-go-v2/service/dynamodbstreams"
	streamtypes "github.com/aws/aws-sdk-go-v2/service/dynamodbstreams/types"
	"github.com/aws/smithy-go"
	"github.com/stretchr/testify/require"

	"github.com/tidegate/tidegate/engine"
	"github.com/tidegate/tidegate/engine/fault"
)

// reader follows a stream shard of the shelf through the faults.
type reader struct {
	s        *shelf
	streams  *dynamodbstreams.Client
	iterator *string
}

func newReader(t *testing.T, o fault.Options) *reader {
	t.Helper()
	s := newShelf(t, types.BillingModePayPerRequest, o)
	_, err := s.direct.UpdateTable(t.Context(), &dynamodb.UpdateTableInput{
		TableName: aws.String(shelfTable),
		StreamSpecification: &types.StreamSpecification{
			StreamEnabled: aws.Bool(true), StreamViewType: types.StreamViewTypeNewAndOldImages,
		},
	})
	require.NoError(t, err)
	r := &reader{s: s, streams: dynamodbstreams.NewFromConfig(engine.Config(s.faults, "us-east-1"), func(o *dynamodbstreams.Options) {
		o.RetryMaxAttempts = 1
	})}
	list, err := r.streams.ListStreams(t.Context(), &dynamodbstreams.ListStreamsInput{TableName: aws.String(shelfTable)})
	require.NoError(t, err)
	require.Len(t, list.Streams, 1)
	arn := list.Streams[0].StreamArn
	described, err := r.streams.DescribeStream(t.Context(), &dynamodbstreams.DescribeStreamInput{StreamArn: arn})
	require.NoError(t, err)
	require.Len(t, described.StreamDescription.Shards, 1)
	out, err := r.streams.GetShardIterator(t.Context(), &dynamodbstreams.GetShardIteratorInput{
		StreamArn: arn, ShardId: described.StreamDescription.Shards[0].ShardId,
		ShardIteratorType: streamtypes.ShardIteratorTypeTrimHorizon,
	})
	require.NoError(t, err)
	r.iterator = out.ShardIterator
	return r
}

func (r *reader) put(t *testing.T, first, last int) {
	t.Helper()
	for i := first; i <= last; i++ {
		_, err := r.s.direct.PutItem(t.Context(), &dynamodb.PutItemInput{TableName: aws.String(shelfTable), Item: slot("box", fmt.Sprint(i))})
		require.NoError(t, err)
	}
}

// next is the next page's slots.
func (r *reader) next(t *testing.T, limit int32) string {
	t.Helper()
	out, err := r.streams.GetRecords(t.Context(), &dynamodbstreams.GetRecordsInput{ShardIterator: r.iterator, Limit: aws.Int32(limit)})
	require.NoError(t, err)
	require.NotNil(t, out.NextShardIterator)
	r.iterator = out.NextShardIterator
	var slots []string
	for _, record := range out.Records {
		slots = append(slots, record.Dynamodb.Keys["slot"].(*streamtypes.AttributeValueMemberS).Value)
	}
	return strings.Join(slots, " ")
}

// strike lets the next GetRecords meet a fault.
func (r *reader) strike(f fault.Fault) {
	r.s.faults.Match(func(operation string, _ []byte) fault.Fault {
		if operation != "GetRecords" {
			return fault.Fault{}
		}
		now := f
		f = fault.Fault{}
		return now
	})
}

func TestPagesComeAgain(t *testing.T) {
	r := newReader(t, fault.Options{})
	r.put(t, 1, 7)
	r.strike(fault.Fault{Kind: fault.PageAgain})
	require.Equal(t, "1 2 3", r.next(t, 3), "no page was before")
	require.Empty(t, r.s.faults.Injected())
	r.strike(fault.Fault{Kind: fault.PageAgain})
	require.Equal(t, "1 2 3", r.next(t, 3))
	require.Equal(t, "4 5 6", r.next(t, 3), "and none is lost")
	r.strike(fault.Fault{Kind: fault.PageOverlaps})
	page := r.next(t, 3)
	require.Contains(t, []string{"4 5 6 7", "5 6 7", "6 7"}, page)
	require.Empty(t, r.next(t, 3))
	require.Equal(t, map[fault.Injection]int64{
		{Kind: fault.PageAgain, Operation: "GetRecords"}: 1, {Kind: fault.PageOverlaps, Operation: "GetRecords"}: 1,
	}, r.s.faults.Injected())
}

func TestAShardIsHeldForAWhile(t *testing.T) {
	r := newReader(t, fault.Options{})
	r.put(t, 1, 2)
	r.strike(fault.Fault{Kind: fault.ShardHeld, Delay: time.Second})
	require.Empty(t, r.next(t, 10))
	r.s.now = r.s.now.Add(999 * time.Millisecond)
	require.Empty(t, r.next(t, 10))
	r.s.now = r.s.now.Add(time.Millisecond)
	require.Equal(t, "1 2", r.next(t, 10))
}

// Whatever pages come again or late, a reader sees every record, each for the
// first time in order.
func TestReadersMissNothing(t *testing.T) {
	for seed := range uint64(20) {
		r := newReader(t, fault.Options{Seed: seed, Chances: []fault.Chance{
			{Probability: .2, Operations: []string{"GetRecords"}, Fault: fault.Fault{Kind: fault.PageAgain}},
			{Probability: .2, Operations: []string{"GetRecords"}, Fault: fault.Fault{Kind: fault.PageOverlaps}},
			{Probability: .2, Operations: []string{"GetRecords"}, Fault: fault.Fault{Kind: fault.ShardHeld, Delay: 20 * time.Millisecond}},
		}})
		var firsts []string
		seen := map[string]bool{}
		repeats := 0
		for i := range 100 {
			if i < 40 {
				r.put(t, i, i)
			}
			r.s.now = r.s.now.Add(10 * time.Millisecond)
			for _, slot := range strings.Fields(r.next(t, 3)) {
				if seen[slot] {
					repeats++
					continue
				}
				seen[slot] = true
				firsts = append(firsts, slot)
			}
		}
		var want []string
		for i := range 40 {
			want = append(want, fmt.Sprint(i))
		}
		require.Equal(t, want, firsts)
		require.Positive(t, repeats)
	}
}

func TestRefusalsOfStreams(t *testing.T) {
	for name, f := range map[string]fault.Fault{
		"LimitExceededException":                 fault.LimitExceeded(),
		"ExpiredIteratorException":               fault.ExpiredIterator(),
		"TrimmedDataAccessException":             fault.TrimmedData(),
		"ProvisionedThroughputExceededException": fault.ThroughputExceeded(),
		"ThrottlingException":                    fault.Throttling(),
	} {
		t.Run(name, func(t *testing.T) {
			r := newReader(t, fault.Options{})
			r.put(t, 1, 1)
			r.strike(f)
			_, err := r.streams.GetRecords(t.Context(), &dynamodbstreams.GetRecordsInput{ShardIterator: r.iterator})
			var refused smithy.APIError
			require.ErrorAs(t, err, &refused)
			require.Equal(t, name, refused.ErrorCode())
			require.Equal(t, "1", r.next(t, 10), "nothing is lost")
			require.Equal(t, map[fault.Injection]int64{
				{Kind: fault.Refused, Error: name, Operation: "GetRecords"}: 1,
			}, r.s.faults.Injected())
		})
	}
	r := newReader(t, fault.Options{})
	r.strike(fault.ExpiredIterator())
	_, err := r.streams.GetRecords(t.Context(), &dynamodbstreams.GetRecordsInput{ShardIterator: r.iterator})
	var expired *streamtypes.ExpiredIteratorException
	require.ErrorAs(t, err, &expired)
}

// A back end that is asked for nonsense refuses it itself.
func TestWhatTheLayerCannotReadTheBackEndRefuses(t *testing.T) {
	s := newShelf(t, types.BillingModePayPerRequest, fault.Options{
		Partitions: &fault.Partitions{}, Stale: fault.Stale{UpTo: time.Second, Tables: true},
		Chances: []fault.Chance{{Probability: 1, Operations: []string{"GetRecords"}, Fault: fault.Fault{Kind: fault.PageAgain}}},
	})
	for _, operation := range []string{
		"PutItem", "UpdateItem", "GetItem", "Query", "Scan", "BatchGetItem", "BatchWriteItem", "TransactWriteItems", "TransactGetItems", "Nonsense",
	} {
		for _, body := range []string{
			``, `{`, `null`, `[]`, ` {}`, `{"TableName":"none"}`, `{"TableName":"shelf"}`, `{"TableName":"shelf","Key":{"box":{"S":1}}}`,
			`{"TableName":"shelf","Item":{}}`, `{"RequestItems":{"shelf":[]}}`, `{"RequestItems":{"shelf":{"Keys":[{}]}}}`, `{"RequestItems":{"shelf":[{}]}}`,
			`{"TransactItems":[{}]}`, `{"TransactItems":[{"Put":{"TableName":"shelf"}}]}`, `{"TransactItems":[{"Put":null}]}`,
			`{"TableName":"shelf","KeyConditionExpression":"=","ReturnConsumedCapacity":"x"}`,
		} {
			req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://x.invalid", strings.NewReader(body))
			require.NoError(t, err)
			req.Header.Set("X-Amz-Target", "DynamoDB_20120810."+operation)
			resp, err := s.faults.RoundTrip(req)
			require.NoError(t, err, "%s %s", operation, body)
			if operation != "Scan" || !strings.Contains(body, "shelf") {
				require.Equal(t, http.StatusBadRequest, resp.StatusCode, "%s %s", operation, body)
			}
			require.NoError(t, resp.Body.Close())
		}
	}
}
