package fault_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/tidegate/tidegate/engine"
	"github.com/tidegate/tidegate/engine/fault"
)

var noon = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

func frozen() time.Time { return noon }

// bench is a table behind a transport, through a client that tries once.
type bench struct {
	t         *testing.T
	engine    *engine.Engine
	transport *fault.Transport
	db        *dynamodb.Client
}

func newBench(t *testing.T, o fault.Options) *bench {
	t.Helper()
	embedded := engine.New(engine.Options{Now: frozen})
	o.Next, o.Now = embedded.HTTPClient(), frozen
	b := &bench{t: t, engine: embedded, transport: fault.New(o)}
	direct := dynamodb.NewFromConfig(engine.Config(embedded.HTTPClient(), "us-east-1"))
	_, err := direct.CreateTable(t.Context(), &dynamodb.CreateTableInput{
		TableName: aws.String("tbl"), BillingMode: types.BillingModePayPerRequest,
		AttributeDefinitions: []types.AttributeDefinition{{AttributeName: aws.String("pk"), AttributeType: types.ScalarAttributeTypeS}},
		KeySchema:            []types.KeySchemaElement{{AttributeName: aws.String("pk"), KeyType: types.KeyTypeHash}},
	})
	require.NoError(t, err)
	b.db = b.client(1)
	return b
}

func (b *bench) client(attempts int) *dynamodb.Client {
	return dynamodb.NewFromConfig(engine.Config(b.transport, "us-east-1"), func(o *dynamodb.Options) {
		o.RetryMaxAttempts = attempts
	})
}

func (b *bench) add(ctx context.Context, db *dynamodb.Client) error {
	_, err := db.UpdateItem(ctx, &dynamodb.UpdateItemInput{
		TableName: aws.String("tbl"), Key: key(), UpdateExpression: aws.String("ADD n :n"),
		ExpressionAttributeValues: map[string]types.AttributeValue{":n": &types.AttributeValueMemberN{Value: "1"}},
	})
	return err
}

func key() map[string]types.AttributeValue {
	return map[string]types.AttributeValue{"pk": &types.AttributeValueMemberS{Value: "a"}}
}

// count is how many additions arrived, as the back end itself has it.
func (b *bench) count() string {
	b.t.Helper()
	db := dynamodb.NewFromConfig(engine.Config(b.engine.HTTPClient(), "us-east-1"))
	out, err := db.GetItem(context.Background(), &dynamodb.GetItemInput{TableName: aws.String("tbl"), Key: key(), ConsistentRead: aws.Bool(true)})
	require.NoError(b.t, err)
	if n, ok := out.Item["n"].(*types.AttributeValueMemberN); ok {
		return n.Value
	}
	return "0"
}

// always strikes each UpdateItem.
func always(f fault.Fault) func(string, []byte) fault.Fault {
	return func(operation string, _ []byte) fault.Fault {
		if operation == "UpdateItem" {
			return f
		}
		return fault.Fault{}
	}
}

func TestFaultsStrikeBeforeOrAfterApply(t *testing.T) {
	reason := fault.Reason{Reason: fault.TableWriteKeyRange, Resource: "arn:aws:dynamodb:us-east-1:000000000000:table/tbl"}
	broken := errors.New("planted")
	for name, c := range map[string]struct {
		fault   fault.Fault
		applied string
		check   func(*testing.T, error)
	}{
		"none": {fault.Fault{}, "1", func(t *testing.T, err error) { require.NoError(t, err) }},
		"provisioned throttle": {fault.ThroughputExceeded(reason), "0", func(t *testing.T, err error) {
			var throttled *types.ProvisionedThroughputExceededException
			require.ErrorAs(t, err, &throttled)
			require.Len(t, throttled.ThrottlingReasons, 1)
			require.Equal(t, reason.Reason, aws.ToString(throttled.ThrottlingReasons[0].Reason))
			require.Equal(t, reason.Resource, aws.ToString(throttled.ThrottlingReasons[0].Resource))
		}},
		"on demand throttle": {fault.Throttling(reason), "0", func(t *testing.T, err error) {
			var throttled *types.ThrottlingException
			require.ErrorAs(t, err, &throttled)
			require.Len(t, throttled.ThrottlingReasons, 1)
			require.Equal(t, reason.Reason, aws.ToString(throttled.ThrottlingReasons[0].Reason))
		}},
		"conflict": {fault.TransactionConflict(), "0", func(t *testing.T, err error) {
			var conflict *types.TransactionConflictException
			require.ErrorAs(t, err, &conflict)
		}},
		"cancelled": {fault.TransactionCanceled("None", "TransactionConflict"), "0", func(t *testing.T, err error) {
			var canceled *types.TransactionCanceledException
			require.ErrorAs(t, err, &canceled)
			require.Len(t, canceled.CancellationReasons, 2)
			require.Equal(t, "TransactionConflict", aws.ToString(canceled.CancellationReasons[1].Code))
		}},
		"500 before": {fault.InternalError(), "0", func(t *testing.T, err error) {
			var internal *types.InternalServerError
			require.ErrorAs(t, err, &internal)
		}},
		"500 after": {fault.InternalErrorAfter(), "1", func(t *testing.T, err error) {
			var internal *types.InternalServerError
			require.ErrorAs(t, err, &internal)
		}},
		"unreachable": {fault.Fault{Kind: fault.Unreachable}, "0", func(t *testing.T, err error) {
			require.ErrorIs(t, err, syscall.ECONNREFUSED)
		}},
		"reply lost": {fault.Fault{Kind: fault.ReplyLost}, "1", func(t *testing.T, err error) {
			require.ErrorIs(t, err, io.ErrUnexpectedEOF)
		}},
		"reset before": {fault.Fault{Kind: fault.Unreachable, Err: syscall.ECONNRESET}, "0", func(t *testing.T, err error) {
			require.ErrorIs(t, err, syscall.ECONNRESET)
		}},
		"reset after": {fault.Fault{Kind: fault.ReplyLost, Err: syscall.ECONNRESET}, "1", func(t *testing.T, err error) {
			require.ErrorIs(t, err, syscall.ECONNRESET)
		}},
		"reply lost otherwise": {fault.Fault{Kind: fault.ReplyLost, Err: broken}, "1", func(t *testing.T, err error) {
			require.ErrorIs(t, err, broken)
		}},
		"late": {fault.Fault{Kind: fault.Late}, "1", func(t *testing.T, err error) {
			require.ErrorIs(t, err, io.ErrUnexpectedEOF)
		}},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t, fault.Options{})
			b.transport.Match(always(c.fault))
			c.check(t, b.add(t.Context(), b.db))
			b.transport.Wait()
			require.Equal(t, c.applied, b.count())
		})
	}
}

// The lesson that the fault layer exists for: the SDK repeats an addition whose
// reply was lost, and it counts twice.
func TestTheSDKRepeatsALostReply(t *testing.T) {
	b := newBench(t, fault.Options{Sleep: func(context.Context, time.Duration) error { return nil }})
	first := true
	b.transport.Match(func(string, []byte) fault.Fault {
		if first {
			first = false
			return fault.Fault{Kind: fault.ReplyLost}
		}
		return fault.Fault{}
	})
	require.NoError(t, b.add(t.Context(), b.client(3)))
	require.Equal(t, "2", b.count())
}

func TestWhatHangsEndsWithTheContext(t *testing.T) {
	for kind, applied := range map[fault.Kind]string{fault.ReplyHangs: "1", fault.Hangs: "0"} {
		t.Run(kind.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := newBench(t, fault.Options{})
				b.transport.Match(always(fault.Fault{Kind: kind}))
				ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
				defer cancel()
				require.ErrorIs(t, b.add(ctx, b.db), context.DeadlineExceeded)
				require.Equal(t, applied, b.count())
			})
		})
	}
}

func TestALateWriteArrivesAfterItsCallerGaveUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, fault.Options{})
		b.transport.Match(always(fault.Fault{Kind: fault.Late, Delay: 5 * time.Second}))
		ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
		defer cancel()
		require.ErrorIs(t, b.add(ctx, b.db), context.DeadlineExceeded)
		require.Equal(t, "0", b.count(), "still under way")
		b.transport.Wait()
		require.Equal(t, "1", b.count())
	})
}

func TestLatency(t *testing.T) {
	for name, c := range map[string]struct {
		latency  fault.Latency
		low, top time.Duration
	}{
		"fixed":      {fault.Fixed(5 * time.Millisecond), 5 * time.Millisecond, 5 * time.Millisecond},
		"uniform":    {fault.Uniform(2*time.Millisecond, 9*time.Millisecond), 2 * time.Millisecond, 9 * time.Millisecond},
		"log-normal": {fault.LogNormal(5*time.Millisecond, 16*time.Millisecond), 100 * time.Microsecond, 250 * time.Millisecond},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := newBench(t, fault.Options{Latency: c.latency, Seed: 7})
				for range 50 {
					began := time.Now()
					require.NoError(t, b.add(t.Context(), b.db))
					took := time.Since(began)
					require.GreaterOrEqual(t, took, c.low)
					require.LessOrEqual(t, took, c.top)
				}
			})
		})
	}
}

// A caller that gives up within the latency cannot know whether its write was
// done; over many calls both happen.
func TestGivingUpIsAmbiguous(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, fault.Options{Latency: fault.Fixed(time.Second)})
		const calls = 64
		for range calls {
			ctx, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
			require.ErrorIs(t, b.add(ctx, b.db), context.DeadlineExceeded)
			cancel()
		}
		var applied int
		_, err := fmt.Sscan(b.count(), &applied)
		require.NoError(t, err)
		require.Greater(t, applied, calls/8)
		require.Less(t, applied, calls*7/8)
	})
}

func TestTheSameSeedGivesTheSameFaults(t *testing.T) {
	run := func(seed uint64) string {
		b := newBench(t, fault.Options{Seed: seed, Chances: []fault.Chance{
			{Probability: 0.2, Fault: fault.Throttling()},
			{Probability: 0.2, Operations: []string{"UpdateItem"}, Fault: fault.Fault{Kind: fault.ReplyLost}},
			{Probability: 1, Operations: []string{"DeleteItem"}, Fault: fault.InternalError()},
		}})
		var history bytes.Buffer
		for range 200 {
			var throttled *types.ThrottlingException
			switch err := b.add(t.Context(), b.db); {
			case err == nil:
				history.WriteByte('.')
			case errors.As(err, &throttled):
				history.WriteByte('t')
			case errors.Is(err, io.ErrUnexpectedEOF):
				history.WriteByte('l')
			default:
				require.NoError(t, err)
			}
		}
		return history.String()
	}
	one := run(1)
	require.Equal(t, one, run(1))
	require.NotEqual(t, one, run(2))
	for _, sign := range ".tl" {
		require.Contains(t, one, string(sign))
	}
}

// Every request has its effect once or not at all, whatever its caller learns,
// and what struck is counted.
func TestEffectsHappenOnceOrNot(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := newShelf(t, types.BillingModePayPerRequest, fault.Options{
			Seed: rapid.Uint64().Draw(t, "seed"), Partitions: &fault.Partitions{WriteUnits: 30},
			Chances: []fault.Chance{
				{Probability: .2, Fault: fault.Fault{Kind: fault.ReplyLost}},
				{Probability: .2, Fault: fault.InternalErrorAfter()},
				{Probability: .2, Fault: fault.InternalError()},
				{Probability: .2, Fault: fault.Fault{Kind: fault.Unreachable}},
			},
		})
		ok, requests := int64(0), rapid.IntRange(1, 80).Draw(t, "requests")
		for range requests {
			if s.hit(t.Context(), s.db, "a", "") == nil {
				ok++
			}
		}
		struck := map[string]int64{}
		for i, n := range s.faults.Injected() {
			require.Equal(t, shelfTable, i.Resource)
			require.Equal(t, "UpdateItem", i.Operation)
			struck[i.Kind.String()+" "+i.Error] = n
		}
		// A throttle behind a fault was lost on the caller, and had no effect.
		throttled := struck["refused ThrottlingException"]
		refused := struck["refused InternalServerError"] + struck["unreachable "]
		require.EqualValues(t, requests, refused+throttled+int64(s.hits(t, "a")))
		require.LessOrEqual(t, ok, int64(s.hits(t, "a")))
		require.LessOrEqual(t, s.hits(t, "a"), 30)
	})
}

func TestCounts(t *testing.T) {
	b := newBench(t, fault.Options{})
	for range 3 {
		require.NoError(t, b.add(t.Context(), b.db))
	}
	_, err := b.db.UpdateItem(t.Context(), &dynamodb.UpdateItemInput{
		TableName: aws.String("tbl"), Key: key(), UpdateExpression: aws.String("REMOVE x"),
		ConditionExpression: aws.String("attribute_not_exists(pk)"),
	})
	var refused *types.ConditionalCheckFailedException
	require.ErrorAs(t, err, &refused)
	_, err = b.db.GetItem(t.Context(), &dynamodb.GetItemInput{TableName: aws.String("tbl"), Key: key()})
	require.NoError(t, err)
	b.transport.Match(always(fault.Throttling()))
	require.Error(t, b.add(t.Context(), b.db))
	require.Equal(t, map[string]fault.Count{
		"UpdateItem": {Calls: 5, Faults: 1, WriteUnits: 4}, // the refused condition cost one, the throttle nothing
		"GetItem":    {Calls: 1, ReadUnits: 0.5},
	}, b.transport.Counts())
	require.Equal(t, fault.Count{Calls: 6, Faults: 1, WriteUnits: 4, ReadUnits: 0.5}, b.transport.Total())
}

// canned is a back end that tells its capacity only as DynamoDB does.
type canned string

func (c canned) RoundTrip(req *http.Request) (*http.Response, error) {
	return &http.Response{
		StatusCode: http.StatusOK, Header: http.Header{}, Request: req, ContentLength: -1,
		Body: io.NopCloser(bytes.NewReader([]byte(c))),
	}, nil
}

func TestCountsOfAForeignBackEnd(t *testing.T) {
	for operation, c := range map[string]struct {
		reply string
		want  fault.Count
	}{
		"UpdateItem": {
			`{"ConsumedCapacity":{"TableName":"t","CapacityUnits":3,"Table":{"CapacityUnits":2},"GlobalSecondaryIndexes":{"g":{"CapacityUnits":1}}}}`,
			fault.Count{Calls: 1, WriteUnits: 2, IndexWriteUnits: 1},
		},
		"TransactWriteItems": {`{"ConsumedCapacity":[{"CapacityUnits":2},{"CapacityUnits":4}]}`, fault.Count{Calls: 1, WriteUnits: 6}},
		"Query":              {`{"ConsumedCapacity":{"CapacityUnits":1.5}}`, fault.Count{Calls: 1, ReadUnits: 1.5}},
		"PutItem":            {`{}`, fault.Count{Calls: 1}},
	} {
		transport := fault.New(fault.Options{Next: canned(c.reply), Now: frozen})
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://x.invalid", http.NoBody)
		require.NoError(t, err)
		req.Header.Set("X-Amz-Target", "DynamoDB_20120810."+operation)
		resp, err := transport.RoundTrip(req)
		require.NoError(t, err)
		body, err := io.ReadAll(resp.Body)
		require.NoError(t, err)
		require.NoError(t, resp.Body.Close())
		require.Equal(t, c.reply, string(body), "the reply is still whole")
		require.Equal(t, map[string]fault.Count{operation: c.want}, transport.Counts())
	}
}

func TestConcurrentUse(t *testing.T) {
	b := newBench(t, fault.Options{Partitions: &fault.Partitions{}, Stale: fault.Stale{UpTo: time.Second, Tables: true}, Latency: fault.Uniform(0, time.Millisecond), Chances: []fault.Chance{
		{Probability: 0.1, Fault: fault.Throttling()}, {Probability: 0.1, Fault: fault.Fault{Kind: fault.Late}},
	}})
	seen := 0
	b.transport.Match(func(string, []byte) fault.Fault { seen++; return fault.Fault{} })
	var wg sync.WaitGroup
	for range 16 {
		wg.Go(func() {
			for range 20 {
				_ = b.add(t.Context(), b.db) // the faults are the point
			}
		})
	}
	wg.Wait()
	b.transport.Wait()
	require.Equal(t, 320, seen, "matched one at a time")
	total := b.transport.Total()
	require.EqualValues(t, 320, total.Calls)
	require.Equal(t, fmt.Sprint(total.WriteUnits), b.count())
}
