package sharder

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tidegate/tidegate/internal/feed"
	"github.com/tidegate/tidegate/internal/table"
	"github.com/tidegate/tidegate/pkg/bucket"
	"github.com/tidegate/tidegate/pkg/events"
	"github.com/tidegate/tidegate/pkg/keys"
)

// seen is what the sharder would plan by.
func (s *Sharder) seen(t *testing.T) view {
	t.Helper()
	s.tracker.mu.Lock()
	defer s.tracker.mu.Unlock()
	e, ok := s.tracker.peek(testKey(0))
	require.True(t, ok)
	return e.view(s.nowMs())
}

// requireSizes looks at how many buckets the sharder knows, and how many of them are
// divided.
func (s *Sharder) requireSizes(t *testing.T, all, divided int, why ...any) {
	t.Helper()
	known, several := s.tracker.sizes()
	require.Equal(t, all, known, why...)
	require.Equal(t, divided, several, why...)
}

// shardOf is an item of the bucket.
func shardOf(number, level, want int, units int64) *table.Bucket {
	return &table.Bucket{Key: testKey(number), Level: level, Want: want, WriteUnits: units}
}

func TestRecordsThatComeAgainCountOnce(t *testing.T) {
	w := newWorld(t)
	s := w.sharder()
	var records []feed.Record
	for n := range int64(5) {
		records = append(records, w.record(shardOf(0, 1, 0, 10*n), shardOf(0, 1, 0, 10*(n+1))))
	}
	for _, again := range [][]int{{0, 1, 2}, {1, 2, 3}, {0, 1, 2, 3, 4}, {4}} {
		for _, i := range again {
			w.tell(records[i], s)
		}
	}
	require.EqualValues(t, 50, s.seen(t).load)
}

// The counters of a shard that was merged away went with it; one that is split off
// anew counts from zero.
func TestAShardThatComesBackCountsFromZero(t *testing.T) {
	w := newWorld(t)
	s := w.sharder()
	w.tell(w.record(shardOf(0, 1, 1, 500), shardOf(0, 2, 2, 502)), s)
	w.tell(w.record(nil, shardOf(1, 2, 0, 0)), s)
	gone := w.record(shardOf(1, 2, 0, 900), nil)
	w.pass(time.Minute)
	w.tell(w.record(shardOf(1, 2, 0, 0), shardOf(1, 2, 0, 900)), s)
	require.EqualValues(t, 900, s.seen(t).load)
	require.False(t, s.seen(t).lacking)
	w.tell(gone, s) // it is older than what is known
	require.False(t, s.seen(t).lacking)
	w.tell(w.record(shardOf(1, 2, 0, 900), nil), s)
	require.False(t, s.seen(t).lacking, "its parent says whether it is wanted")
	w.tell(w.record(shardOf(0, 2, 2, 502), shardOf(0, 1, 1, 504)), s)
	w.pass(time.Minute)
	w.tell(w.record(nil, shardOf(1, 2, 0, 0)), s)
	w.tell(w.record(shardOf(1, 2, 0, 0), shardOf(1, 2, 0, 7)), s)
	w.pass(settleMs * time.Millisecond)
	w.tell(w.record(shardOf(1, 2, 0, 7), shardOf(1, 2, 0, 19)), s)
	require.EqualValues(t, 12, s.seen(t).load)
}

// What a second brings that is not over two seconds after a change of shards is no
// reason for another.
func TestEvidenceIsYoungerThanTheLastSplit(t *testing.T) {
	w := newWorld(t)
	s := w.sharder()
	w.tell(w.record(shardOf(0, 1, 0, 0), shardOf(0, 1, 0, 2000)), s)
	require.EqualValues(t, 2000, s.seen(t).load)
	w.tell(w.record(shardOf(0, 1, 0, 2000), shardOf(0, 2, 2, 2002)), s)
	units := int64(2002)
	for second := range 4 {
		w.tell(w.record(shardOf(0, 2, 2, units), shardOf(0, 2, 2, units+3000)), s)
		units += 3000
		if second < settleMs/1000 {
			require.Zero(t, s.seen(t).load, "second %d", second)
		} else {
			require.EqualValues(t, 3000, s.seen(t).load)
		}
		w.pass(time.Second)
	}
}

// The load of a bucket is that of all its shards, and of what nodes report; what they
// cost most is what the dearest of them says.
func TestReportsOfAllNodesAreTakenTogether(t *testing.T) {
	w := newWorld(t)
	s := w.sharder()
	w.pass(time.Minute)
	w.tell(w.record(nil, shardOf(0, 1, 0, 1)), s)
	w.tell(w.record(shardOf(0, 1, 0, 1), shardOf(0, 1, 0, 100)), s)
	w.report(s,
		events.Load{Key: testKey(0), FailedUnits: 5, Costs: map[string]int64{"rpm": 3, "tpm": 9}},
		events.Load{Key: keys.Bucket{Namespace: ns, Entity: "unknown", Resource: "gpt-4"}, FailedUnits: 5000})
	w.report(s, events.Load{Key: testKey(0), FailedUnits: 7, Costs: map[string]int64{"rpm": 4, "tpm": 2}})
	v := s.seen(t)
	require.EqualValues(t, 112, v.load)
	require.Equal(t, map[string]int64{"rpm": 4, "tpm": 9}, v.costs)
	s.requireSizes(t, 1, 0, "who the feed does not tell of is another sharder's")

	w.pass(2 * time.Second)
	w.report(s, events.Load{Key: testKey(0), Costs: map[string]int64{"rpm": 1}})
	require.Equal(t, map[string]int64{"rpm": 1}, s.seen(t).costs, "requests have become cheaper")
	w.pass(costsMs * time.Millisecond)
	require.Empty(t, s.seen(t).costs, "and then there were none")
}

func TestMemoryIsBounded(t *testing.T) {
	w := newWorld(t)
	s := w.sharder()
	var err error
	s.tracker, err = newTracker(10)
	require.NoError(t, err)
	for n := range 100 {
		for _, shard := range []int{0, 1} {
			item := shardOf(shard, 2, 2, 1)
			item.Key.Entity = fmt.Sprintf("e%d", n)
			w.tell(w.record(nil, item), s)
		}
	}
	s.requireSizes(t, 10, 10)
	require.LessOrEqual(t, len(s.tracker.touched), 10)
}

// Records of other kinds, and of shards that no release makes, are left out.
func TestOtherRecordsAreLeftOut(t *testing.T) {
	w := newWorld(t)
	s := w.sharder()
	strange := w.record(nil, shardOf(0, 1, 0, 1))
	strange.Key = keys.Bucket{Namespace: ns, Entity: "e", Resource: "r", Shard: bucket.MaxShards}
	entity := feed.Record{Event: &events.Event{Key: keys.Entity{Namespace: ns, ID: "e"}, Entity: &events.Change[events.Entity]{}}}
	w.tell(strange, s)
	w.tell(entity, s)
	s.requireSizes(t, 0, 0)
}

// A divided bucket that has become quiet is merged, however many others are busy.
func TestAQuietDividedBucketIsNotForgottenForBusyOnes(t *testing.T) {
	w := newWorld(t)
	s := w.sharder()
	var err error
	s.tracker, err = newTracker(4)
	require.NoError(t, err)
	w.tell(w.record(nil, shardOf(0, 2, 2, 1)), s)
	w.tell(w.record(nil, shardOf(1, 2, 0, 1)), s)
	for n := range 100 {
		item := shardOf(0, 1, 0, 1)
		item.Key.Entity = fmt.Sprintf("e%d", n)
		w.tell(w.record(nil, item), s)
	}
	w.pass(idleMs * time.Millisecond)
	require.Equal(t, []task{{testKey(0), step{merge, 2, 1}}}, s.tracker.due(s.nowMs(), everything, defaultSteps, defaultSteps))
	s.requireSizes(t, 5, 1)
}

func everything(keys.Bucket) bool { return true }

// Doublings come before merges, of which as many are made as there is room for; the
// others are made later.
func TestDoublingsDoNotWaitForMerges(t *testing.T) {
	w := newWorld(t)
	s := w.sharder()
	for n := range 20 {
		for shard := range 2 {
			item := shardOf(shard, 2, 2*(1-shard), 1)
			item.Key.Entity = fmt.Sprintf("quiet%d", n)
			w.tell(w.record(nil, item), s)
		}
	}
	w.pass(idleMs * time.Millisecond)
	w.tell(w.record(shardOf(0, 1, 0, 1), shardOf(0, 1, 0, 900)), s)
	steps := s.tracker.due(s.nowMs(), everything, 4, 3)
	require.Len(t, steps, 4)
	require.Equal(t, task{testKey(0), step{double, 1, 2}}, steps[0])
	require.Empty(t, s.tracker.due(s.nowMs(), everything, 1, 0), "none of those under way, and no room for the others")
	later := s.tracker.due(s.nowMs(), everything, 99, 99)
	require.Len(t, later, 17)
	require.Empty(t, s.tracker.due(s.nowMs(), everything, 99, 99))
}

// A sharder that comes to have a lane again does not know what load there was in
// between, nor one that finds more shards wanted than it knew of.
func TestWhatWasNotObservedIsNoReasonToMerge(t *testing.T) {
	w := newWorld(t)
	s := w.sharder()
	due := func(mine bool) []task {
		return s.tracker.due(s.nowMs(), func(keys.Bucket) bool { return mine }, defaultSteps, defaultSteps)
	}
	w.tell(w.record(nil, shardOf(0, 1, 0, 1)), s)
	w.pass(2 * idleMs * time.Millisecond)
	w.tell(w.record(shardOf(0, 2, 2, 5), shardOf(0, 2, 2, 6)), s)
	w.tell(w.record(nil, shardOf(1, 2, 0, 1)), s)
	w.pass(time.Minute)
	require.Empty(t, due(true), "others have doubled it, not long ago")
	w.pass(2 * idleMs * time.Millisecond)
	require.Empty(t, due(false), "it is another's")
	w.pass(time.Minute)
	require.Empty(t, due(true))
	w.pass(idleMs * time.Millisecond)
	require.Equal(t, []task{{testKey(0), step{merge, 2, 1}}}, due(true))
}
