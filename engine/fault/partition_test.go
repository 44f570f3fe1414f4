package fault_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/tidegate/tidegate/engine/fault"
)

func reasonsOf(t testingContext, err error) []types.ThrottlingReason {
	var onDemand *types.ThrottlingException
	if errors.As(err, &onDemand) {
		return onDemand.ThrottlingReasons
	}
	var provisioned *types.ProvisionedThroughputExceededException
	require.ErrorAs(t, err, &provisioned)
	return provisioned.ThrottlingReasons
}

// In any time T, a partition passes no more than its capacity for T and one
// second and the burst; and what it throttles has no effect.
func TestAPartitionPassesNoMoreThanItsCapacity(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		rate := float64(rapid.IntRange(1, 20).Draw(t, "rate"))
		burst := time.Duration(rapid.IntRange(0, 3).Draw(t, "burst")) * time.Second
		s := newShelf(t, types.BillingModePayPerRequest, fault.Options{
			Partitions: &fault.Partitions{WriteUnits: rate, Burst: burst},
		})
		var passed []time.Time
		for range rapid.IntRange(1, 150).Draw(t, "requests") {
			s.now = s.now.Add(time.Duration(rapid.IntRange(0, 200).Draw(t, "pause")) * time.Millisecond)
			if err := s.hit(t.Context(), s.db, "a", ""); err == nil {
				passed = append(passed, s.now)
			} else {
				reasonsOf(t, err)
			}
		}
		require.Equal(t, len(passed), s.hits(t, "a"), "the throttled have no effect")
		for i := range passed {
			for j := i; j < len(passed); j++ {
				allowed := rate * (passed[j].Sub(passed[i]) + time.Second + burst).Seconds()
				require.LessOrEqual(t, float64(j-i+1), allowed+1e-3)
			}
		}
	})
}

// Partitions that are not known beforehand to be short pass what turns out too
// large, and pay it back before the next request passes.
func TestDebtIsPaidBack(t *testing.T) {
	s := newShelf(t, types.BillingModePayPerRequest, fault.Options{Partitions: &fault.Partitions{WriteUnits: 10}})
	large := slot("a", "large")
	large["text"] = &types.AttributeValueMemberS{Value: string(make([]byte, 29<<10))}
	_, err := s.db.PutItem(t.Context(), &dynamodb.PutItemInput{TableName: aws.String(shelfTable), Item: large})
	require.NoError(t, err)
	s.now = s.now.Add(2 * time.Second)
	require.Error(t, s.hit(t.Context(), s.db, "a", ""), "30 units less 10 less 20")
	s.now = s.now.Add(100 * time.Millisecond)
	require.NoError(t, s.hit(t.Context(), s.db, "a", ""))
}

func TestThrottlesNameTheirReason(t *testing.T) {
	const arn = "arn:aws:dynamodb:us-east-1:000000000000:table/shelf"
	ctx := t.Context()
	for name, c := range map[string]struct {
		do       func(s *shelf, i int) error
		reason   string
		resource string
	}{
		"writes of a table": {
			func(s *shelf, _ int) error { return s.hit(ctx, s.db, "a", "") },
			fault.TableWriteKeyRange, arn,
		},
		"writes of an index": { // to move a row costs the index 2 and the table 1
			func(s *shelf, i int) error { return s.hit(ctx, s.db, fmt.Sprint("box", i%50), fmt.Sprint("red", i)) },
			fault.IndexWriteKeyRange, arn + "/index/" + shelfIndex,
		},
		"reads of a table": {
			func(s *shelf, _ int) error {
				_, err := s.db.GetItem(ctx, &dynamodb.GetItemInput{TableName: aws.String(shelfTable), Key: slot("a", "0")})
				return err
			},
			fault.TableReadKeyRange, arn,
		},
		"reads of an index": {
			func(s *shelf, _ int) error { _, err := s.colored(ctx, s.db, "red"); return err },
			fault.IndexReadKeyRange, arn + "/index/" + shelfIndex,
		},
		"scans": {
			func(s *shelf, _ int) error {
				_, err := s.db.Scan(ctx, &dynamodb.ScanInput{TableName: aws.String(shelfTable)})
				return err
			},
			fault.TableReadKeyRange, arn,
		},
	} {
		for _, billing := range []types.BillingMode{types.BillingModePayPerRequest, types.BillingModeProvisioned} {
			t.Run(name+", "+string(billing), func(t *testing.T) {
				s := newShelf(t, billing, fault.Options{Partitions: &fault.Partitions{WriteUnits: 100, ReadUnits: 100}})
				var err error
				for i := 0; err == nil && i < 1000; i++ {
					err = c.do(s, i)
				}
				var onDemand *types.ThrottlingException
				require.Equal(t, billing == types.BillingModePayPerRequest, errors.As(err, &onDemand), "%v", err)
				reasons := reasonsOf(t, err)
				require.Len(t, reasons, 1)
				require.Equal(t, c.reason, aws.ToString(reasons[0].Reason))
				require.Equal(t, c.resource, aws.ToString(reasons[0].Resource))
				s.now = s.now.Add(time.Second)
				require.NoError(t, c.do(s, 1000), "a second later")
			})
		}
	}
}

// colored queries the index.
func (s *shelf) colored(ctx context.Context, db *dynamodb.Client, color string) ([]map[string]types.AttributeValue, error) {
	pages := dynamodb.NewQueryPaginator(db, &dynamodb.QueryInput{
		TableName: aws.String(shelfTable), IndexName: aws.String(shelfIndex), KeyConditionExpression: aws.String("color = :c"),
		ExpressionAttributeValues: map[string]types.AttributeValue{":c": &types.AttributeValueMemberS{Value: color}},
		Limit:                     aws.Int32(2),
	})
	var rows []map[string]types.AttributeValue
	for pages.HasMorePages() {
		page, err := pages.NextPage(ctx)
		if err != nil {
			return nil, err
		}
		rows = append(rows, page.Items...)
	}
	return rows, nil
}

func TestFailedConditionsCost(t *testing.T) {
	s := newShelf(t, types.BillingModePayPerRequest, fault.Options{Partitions: &fault.Partitions{WriteUnits: 5}})
	fail := func() error {
		_, err := s.db.DeleteItem(t.Context(), &dynamodb.DeleteItemInput{
			TableName: aws.String(shelfTable), Key: slot("a", "0"), ConditionExpression: aws.String("attribute_exists(box)"),
		})
		return err
	}
	for range 5 {
		var refused *types.ConditionalCheckFailedException
		require.ErrorAs(t, fail(), &refused)
	}
	require.Len(t, reasonsOf(t, fail()), 1)
}

// Throttled long enough, a partition splits, unless one key is all its heat.
func TestPartitionsSplitForHeat(t *testing.T) {
	run := func(boxes int) (first, last float64, parts int) {
		s := newShelf(t, types.BillingModePayPerRequest, fault.Options{
			Partitions: &fault.Partitions{WriteUnits: 10, SplitAfter: 3 * time.Second},
		})
		for i := range 100 * 20 {
			s.now = s.now.Add(10 * time.Millisecond)
			if err := s.hit(t.Context(), s.db, fmt.Sprint("box", i%boxes), ""); err != nil {
				reasonsOf(t, err)
			}
		}
		for _, p := range s.faults.Partitions() {
			parts++
			for _, second := range p.Seconds {
				switch second.At {
				case noon.Add(2 * time.Second):
					first += second.Write.Passed
				case noon.Add(19 * time.Second):
					last += second.Write.Passed
				}
				require.LessOrEqual(t, second.Write.Passed, 20.0)
				require.GreaterOrEqual(t, second.Write.Offered, second.Write.Passed)
			}
		}
		return first, last, parts
	}
	first, last, parts := run(64)
	require.Greater(t, parts, 3)
	require.InDelta(t, 10, first, 1)
	require.Greater(t, last, 30.0)
	first, last, parts = run(1)
	require.Equal(t, 1, parts)
	require.InDelta(t, 10, first, 1)
	require.InDelta(t, 10, last, 1)
}

func TestEqualRunsAreThrottledAlike(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		seed := rapid.Uint64().Draw(t, "seed")
		type step struct {
			box, color string
			pause      time.Duration
		}
		steps := rapid.SliceOfN(rapid.Custom(func(t *rapid.T) step {
			return step{
				rapid.SampledFrom([]string{"a", "b", "c"}).Draw(t, "box"), rapid.SampledFrom([]string{"", "red", "blue"}).Draw(t, "color"),
				time.Duration(rapid.IntRange(0, 300).Draw(t, "pause")) * time.Millisecond,
			}
		}), 1, 60).Draw(t, "steps")
		run := func() (history []string, injected map[fault.Injection]int64) {
			s := newShelf(t, types.BillingModePayPerRequest, fault.Options{
				Seed: seed, Latency: fault.Uniform(0, 50*time.Millisecond), Stale: fault.Stale{UpTo: time.Second},
				Latencies:  map[string]fault.Latency{"Query": fault.LogNormal(5*time.Millisecond, 20*time.Millisecond)},
				Partitions: &fault.Partitions{WriteUnits: 4, Count: 2, SplitAfter: time.Second},
				Chances:    []fault.Chance{{Probability: .1, Fault: fault.InternalErrorAfter()}, {Probability: .1, Fault: fault.Fault{Kind: fault.ReplyLost}}},
			})
			for _, step := range steps {
				s.now = s.now.Add(step.pause)
				err := s.hit(t.Context(), s.db, step.box, step.color)
				rows, err2 := s.colored(t.Context(), s.db, "red")
				history = append(history, fmt.Sprint(s.now.Sub(noon), kindOf(err), len(rows), kindOf(err2)))
			}
			return history, s.faults.Injected()
		}
		history, injected := run()
		again, injectedAgain := run()
		require.Equal(t, history, again)
		require.Equal(t, injected, injectedAgain)
	})
}

// kindOf is an error's type, without what differs from run to run.
func kindOf(err error) string {
	var coded interface{ ErrorCode() string }
	switch {
	case err == nil:
		return "ok"
	case errors.As(err, &coded):
		return coded.ErrorCode()
	}
	return "lost"
}
