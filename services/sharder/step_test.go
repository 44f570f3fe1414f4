package sharder

import (
	"fmt"
	"maps"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/stretchr/testify/require"

	"github.com/tidegate/tidegate/engine/fault"
	"github.com/tidegate/tidegate/internal/config"
	"github.com/tidegate/tidegate/internal/table"
	"github.com/tidegate/tidegate/pkg/bucket"
	"github.com/tidegate/tidegate/pkg/events"
	"github.com/tidegate/tidegate/pkg/keys"
)

func TestALoadThatNeedsFourShardsGetsFourAndGoesBackToOne(t *testing.T) {
	w, s := usualWorld(t)
	w.seconds(12, 2400, s)
	require.Len(t, w.tree(), 4)
	require.Equal(t, 2, s.counted(double, "done"))
	w.seconds(60, 2400, s)
	for range 20 { // minutes, of which one second each is looked at
		w.pass(59 * time.Second)
		w.seconds(1, 2400, s)
	}
	require.Len(t, w.tree(), 4, "it lasts")
	w.quiet(9, s)
	require.Len(t, w.tree(), 4)
	w.quiet(3, s)
	require.Len(t, w.tree(), 1)
	require.Equal(t, 1, s.counted(merge, "done"), "all at once")
	require.Equal(t, 2, s.counted(double, "done"))
}

// 40 acquires per second, each a write of its own, for ten minutes.
func TestFortyAcquiresPerSecondStayOnOneShard(t *testing.T) {
	w, s := usualWorld(t)
	w.seconds(600, 40, s)
	require.Len(t, w.tree(), 1)
	require.Zero(t, w.Calls(""), "a bucket that is not divided costs a sharder nothing")
}

// Denials are free: nodes deny what they know to be short without a write, and the
// one look per second of each is no load.
func TestAThousandDenialsPerSecondStayOnOneShard(t *testing.T) {
	w := newWorld(t)
	s := w.sharder()
	w.create(600, []bucket.Limit{perDay("rpm", 600)}, s)
	for range 60 {
		w.load(1, s)
		w.report(s, events.Load{Key: testKey(0), Requests: 1000, Denied: 999, FailedUnits: 1, Costs: map[string]int64{"rpm": 1}})
		require.Empty(t, s.turn(t))
	}
	require.Len(t, w.tree(), 1)
}

// Writes that a partition threw back are part of the load: else a bucket that is
// throttled would look as if one shard bore it.
func TestFailedWritesAreLoad(t *testing.T) {
	w, s := usualWorld(t)
	w.load(700, s)
	require.Empty(t, s.turn(t))
	w.report(s, events.Load{Key: testKey(0), FailedUnits: 100})
	require.Equal(t, []step{{double, 1, 2}}, s.turn(t))
	require.Len(t, w.tree(), 2)
}

// What requests cost decides how small shares may get.
func TestSharesStayLargerThanWhatRequestsCost(t *testing.T) {
	w, s := usualWorld(t)
	for range 20 {
		w.load(9000, s)
		w.report(s, events.Load{Key: testKey(0), Requests: 1000, Costs: map[string]int64{"rpm": 150}})
		s.turn(t)
	}
	require.Len(t, w.tree(), 4)
}

func TestALimitOfFiveIsNotDividedBeyondWhatServesIt(t *testing.T) {
	w := newWorld(t)
	s := w.sharder()
	w.create(0, []bucket.Limit{perDay("rpm", 5)}, s)
	w.seconds(20, 9000, s)
	require.Len(t, w.tree(), 4)
	require.EqualValues(t, 5000, w.left())
}

func TestNeverMoreThanThirtyTwo(t *testing.T) {
	w, s := usualWorld(t)
	w.seconds(30, 100_000, s)
	require.Len(t, w.tree(), bucket.MaxShards)
	require.EqualValues(t, 596_000, w.left()/1000*1000)
	require.Equal(t, counts-1, s.counted(double, "done"))
}

// Sharders and admission nodes that double the same bucket at once make one step.
func TestManyWhoDoubleAtOnceMakeOneStep(t *testing.T) {
	for range 5 {
		w := newWorld(t)
		sharders := []*Sharder{w.sharder(), w.sharder()}
		w.usual(sharders...)
		for from := 1; from <= 8; from *= 2 {
			w.pass(5 * time.Second)
			w.load(int64(900*from), sharders...)
			before := w.left()
			var all sync.WaitGroup
			for _, s := range sharders {
				all.Go(func() { s.turn(t) })
			}
			for range 2 { // as admission nodes do
				all.Go(func() {
					if _, err := w.direct().Double(t.Context(), testKey(0), from); err != nil {
						t.Errorf("double: %v", err)
					}
				})
			}
			all.Wait()
			require.Len(t, w.tree(), 2*from)
			require.Equal(t, before, w.left())
		}
	}
}

// outcomes are all that can become of one request.
func outcomes() map[string][]fault.Fault {
	return map[string][]fault.Fault{
		"applied":             {{}},
		"failed":              {fault.InternalError()},
		"failed, but applied": {fault.InternalErrorAfter()},
		"reply lost":          {{Kind: fault.ReplyLost}},
		"lost, then failed":   {{Kind: fault.ReplyLost}, fault.InternalError(), {Kind: fault.Unreachable}},
		"throttled":           {fault.Throttling(), fault.Throttling()},
		"conflict":            {fault.TransactionConflict()},
		"cancelled":           {fault.TransactionCanceled("None", "TransactionConflict")},
		"unreachable":         {{Kind: fault.Unreachable}},
		"refused":             {fault.TransactionCanceled("ConditionalCheckFailed", "None")},
	}
}

// Whatever becomes of a request, the bucket holds what it held, gets the shards that
// it needs, and is one again in the end.
func TestStepsThroughEveryFault(t *testing.T) {
	for name, faults := range outcomes() {
		for _, operation := range []string{"TransactWriteItems", "UpdateItem", "BatchGetItem"} {
			if name == "cancelled" || name == "refused" || name == "conflict" {
				operation = "TransactWriteItems"
			}
			t.Run(name+" "+operation, func(t *testing.T) {
				t.Parallel()
				w, s := usualWorld(t)
				for range 4 {
					w.Fail(operation, faults...)
					w.seconds(5, 2400, s)
				}
				w.Forgive(operation)
				w.seconds(20, 2400, s)
				require.Len(t, w.tree(), 4)
				require.EqualValues(t, 596, bucket.Floor(w.left()))
				w.quiet(8, s)
				for range 5 {
					w.Fail(operation, faults...)
					w.quiet(1, s)
				}
				w.Forgive(operation)
				w.quiet(3, s)
				require.Len(t, w.tree(), 1)
				require.GreaterOrEqual(t, bucket.Floor(w.left()), int64(596))
				require.LessOrEqual(t, w.left(), int64(600_000))
			})
		}
	}
}

// A sharder that ends between two transactions of a step leaves a bucket that is
// whole but not what is wanted; another ends it, also one that does not know how
// it came about.
func TestACrashBetweenStepsIsRepaired(t *testing.T) {
	for n := 1; n <= 6; n++ {
		t.Run(fmt.Sprintf("after %d transactions", n), func(t *testing.T) {
			w, first := usualWorld(t)
			w.seconds(12, 3000, first)
			require.Len(t, w.tree(), 4)
			before := w.left()

			w.load(6000, first)
			w.crash(first, n)
			second := w.successor()
			wanted := w.tree().Wanted()
			require.Equal(t, 8, wanted)
			w.pass(settleMs * time.Millisecond)
			second.turn(t)
			require.Len(t, w.tree(), wanted)
			require.InDelta(t, before, w.left(), 100)

			third := w.successor()
			w.pass(idleMs * time.Millisecond)
			before = w.left()
			w.crash(third, n)
			require.LessOrEqual(t, w.tree().Wanted(), 1)
			fourth := w.successor()
			w.pass(settleMs * time.Millisecond)
			fourth.turn(t)
			require.Len(t, w.tree(), 1)
			require.LessOrEqual(t, w.left(), int64(600_000))
			require.GreaterOrEqual(t, w.left(), before)
		})
	}
}

// crash has a sharder make the steps that are due, of which the table gets n
// transactions and none after these.
func (w *world) crash(s *Sharder, n int) {
	w.t.Helper()
	w.Fail("TransactWriteItems", append(make([]fault.Fault, n), slices.Repeat([]fault.Fault{{Kind: fault.Unreachable}}, 9)...)...)
	s.turn(w.t)
	w.Forgive("TransactWriteItems")
}

// successor is a sharder that knows of buckets what a survey finds.
func (w *world) successor() *Sharder {
	w.t.Helper()
	s := w.sharder()
	require.NoError(w.t, s.surveyOnce(w.t.Context()))
	return s
}

// The table is what counts, not what the feed has told so far.
func TestWhatTheFeedDidNotTellHoldsAMergeOff(t *testing.T) {
	w, s := usualWorld(t)
	w.seconds(8, 1000, s)
	require.Len(t, w.tree(), 2)
	for range 10 { // minutes without a relay
		w.pass(59 * time.Second)
		w.load(60 * 1000)
	}
	w.quiet(2, s)
	require.Len(t, w.tree(), 2)
	require.NotZero(t, s.counted(merge, "overtaken"))
	w.quiet(20, s)
	require.Len(t, w.tree(), 1)
}

// A feed that was away tells of seconds long ago: what they were is no reason to
// divide now.
func TestOldLoadsAreNoReasonToDivide(t *testing.T) {
	w, s := usualWorld(t)
	w.load(5000, s)
	w.pass(staleMs*time.Millisecond + time.Second)
	require.Empty(t, s.turn(t))
}

func TestQuietDividedBucketsAreFoundAfterARestart(t *testing.T) {
	w := newWorld(t)
	w.usual()
	_, err := w.direct().Double(t.Context(), testKey(0), 1)
	require.NoError(t, err)
	s := w.sharder()
	w.Fail("BatchGetItem", fault.InternalError())
	_, err = s.surveyPage(t.Context(), nil)
	require.Error(t, err)
	require.NoError(t, s.surveyOnce(t.Context()))
	s.requireSizes(t, 1, 1)
	w.quiet(9, s)
	require.Len(t, w.tree(), 2, "it may have been written a moment before the restart")
	w.quiet(2, s)
	require.Len(t, w.tree(), 1)
}

// A bucket from which somebody has deleted a shard by hand keeps no other from being
// found, and neither does a row that is no bucket's.
func TestABrokenBucketDoesNotEndTheSurvey(t *testing.T) {
	w := newWorld(t)
	for n, entity := range []string{"a", "b", "c"} {
		w.key.Entity = entity
		w.usual()
		tree, err := w.direct().Double(t.Context(), w.key, 1)
		require.NoError(t, err)
		if n < 2 {
			w.remove(tree[0])
		}
	}
	foreign := table.EncodeBucket(w.tree()[1])
	maps.Copy(foreign, table.KeyItem(keys.Key{PK: "foreign", SK: "row"}))
	_, err := w.Direct.PutItem(t.Context(), &dynamodb.PutItemInput{TableName: &w.Table, Item: foreign})
	require.NoError(t, err)
	s := w.successor()
	require.True(t, s.tracker.knows(w.key))
	s.requireSizes(t, 1, 1)
	w.quiet(11, s)
	require.Len(t, w.tree(), 1)
}

// A lost record tells nobody of a new shard; the next survey does.
func TestALostEventIsMadeUpForByTheNextSurvey(t *testing.T) {
	w, s := usualWorld(t)
	require.NoError(t, s.surveyOnce(t.Context()))
	_, err := w.direct().Double(t.Context(), testKey(0), 1)
	require.NoError(t, err)
	w.quiet(30, s)
	require.Len(t, w.tree(), 2)
	require.NoError(t, s.surveyOnce(t.Context()))
	w.quiet(11, s)
	require.Len(t, w.tree(), 1)
}

// A bucket that expired, or was deleted, has nothing to be divided.
func TestABucketThatIsGoneIsForgotten(t *testing.T) {
	w, s := usualWorld(t)
	w.seconds(8, 1000, s)
	tree := w.tree()
	require.Len(t, tree, 2)
	for _, b := range tree {
		w.remove(b)
	}
	w.quiet(12, s)
	require.Equal(t, 1, s.counted(merge, "overtaken"))
	s.requireSizes(t, 0, 0)

	w.usual(s)
	w.tell(w.record(w.tree()[0], nil), s)
	w.load(5000)
	require.Empty(t, s.turn(t))
}

func TestUnknownLimitsDoNotStopTheOthers(t *testing.T) {
	w, s := usualWorld(t)
	w.seconds(8, 1000, s)
	tree := w.tree()
	other := *tree[1]
	other.Fingerprint = "of limits that nobody stores any more"
	w.put(&other)
	w.quiet(12, s)
	require.NotZero(t, s.counted(merge, "failed"))
	require.Len(t, w.tree(), 2, "it is not known what they shall be brought to")
	w.setLimits(600)
	w.quiet(2, s)
	require.Len(t, w.tree(), 1)
}

// A bucket of requests that bring their own limits keeps them: what its shards differ
// in is who the entity cascades to.
func TestShardsOfOverridesAreMergedUnderTheirOwnLimits(t *testing.T) {
	w := newWorld(t)
	s := w.sharder()
	own := config.Resolved{Limits: []bucket.Limit{perDay("rpm", 600)}}.With([]bucket.Limit{perDay("rpm", 600)})
	w.key = testKey(0)
	w.key.Resource = keys.OverrideResource("gpt-4", own.Fingerprint)
	w.create(4, own.Limits, s)
	w.seconds(8, 1000, s)
	tree := w.tree()
	require.Len(t, tree, 2)
	other := *tree[1]
	other.Fingerprint, other.Cascade, other.Parent = "of when it had a parent", true, "acme"
	w.put(&other)
	w.quiet(12, s)
	require.Len(t, w.tree(), 1)
	require.Equal(t, own.Fingerprint, w.tree()[0].Fingerprint)
	require.EqualValues(t, 600_000, w.left(), "full after so long, and not above it")
}

func TestAnUnreadableReportIsDropped(t *testing.T) {
	w := newWorld(t)
	s := w.sharder()
	s.heard([]byte("{"))
	w.usual(s)
	w.report(s, events.Load{Key: testKey(0), FailedUnits: 900})
	require.Equal(t, []step{{double, 1, 2}}, s.turn(t))
}
