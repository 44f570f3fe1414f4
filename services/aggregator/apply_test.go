package aggregator

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/stretchr/testify/require"

	"github.com/tidegate/tidegate/engine/fault"
	"github.com/tidegate/tidegate/internal/feed"
	"github.com/tidegate/tidegate/internal/table"
	"github.com/tidegate/tidegate/pkg/events"
	"github.com/tidegate/tidegate/pkg/keys"
)

func rpm(tokens int64) map[string]int64 { return map[string]int64{"rpm": 1000 * tokens} }

// one spends a token of an entity.
func (h *history) one(entity string, shard int) { h.use(bucketOf(entity, shard), 1, rpm(1)) }

func TestTheFirstAcquireOfABucketCounts(t *testing.T) {
	w, h := newWorld(t), newHistory(1)
	h.one("alice", 0)
	require.NoError(t, w.counter(t).apply(t.Context(), batch(h.records...)))
	h.mustBeCounted(t, w)
	u := w.snapshot(t, hourly("alice", h.at))
	require.Equal(t, []table.UsedTotal{{Limit: "rpm", Tokens: 1}}, u.Used)
	require.EqualValues(t, 1, u.Acquires)
	require.Equal(t, map[int]string{0: h.records[0].Position.String()}, u.Counted)
	require.Equal(t, h.at.Truncate(time.Hour).Add(time.Hour).Add(90*24*time.Hour).Unix(), u.TTL)
}

// The window is that of the event's time, and the day that begins with an hour is
// another item than the hour.
func TestWindowsOfMidnight(t *testing.T) {
	w, h := newWorld(t), newHistory(1)
	h.at = midnight().Add(-time.Millisecond)
	h.one("alice", 0)
	h.at = midnight()
	h.one("alice", 0)
	h.one("alice", 0)
	require.NoError(t, w.counter(t).apply(t.Context(), batch(h.records...)))
	h.mustBeCounted(t, w)
	require.Len(t, w.snapshots(t), 4)
	before := midnight().Add(-time.Hour)
	require.EqualValues(t, 1, w.snapshot(t, hourly("alice", before)).Acquires)
	require.EqualValues(t, 1, w.snapshot(t, daily("alice", before)).Acquires)
	require.EqualValues(t, 2, w.snapshot(t, hourly("alice", midnight())).Acquires)
	require.EqualValues(t, 2, w.snapshot(t, daily("alice", midnight())).Acquires)
}

func TestMonthlySnapshotsWhereTheyAreWanted(t *testing.T) {
	w, h := newWorld(t), newHistory(1)
	h.one("alice", 0)
	cfg := Config{Tuning: Tuning{Monthly: true}, Keep: time.Hour}
	c := w.counter(t)
	monthly, err := newCounter(cfg.withDefaults(), nil)
	require.NoError(t, err)
	c.windows, c.keep = monthly.windows, cfg.Keep
	require.NoError(t, c.apply(t.Context(), batch(h.records...)))
	u := w.snapshot(t, usageKey("alice", "monthly", h.at))
	require.EqualValues(t, 1, u.Acquires)
	require.Equal(t, "2026-03-01T00:00:00Z", u.Key.Start)
	require.Equal(t, time.Date(2026, 4, 1, 1, 0, 0, 0, time.UTC).Unix(), u.TTL)
}

// A limit that is dropped loses its counter; added again, it counts from 0. A
// shard that is gone was counted before.
func TestCountersThatComeAndGo(t *testing.T) {
	w, h := newWorld(t), newHistory(1)
	key := bucketOf("alice", 1)
	h.use(key, 1, map[string]int64{"rpm": 1000, "tpm": 500_000})
	after := copyOf(h.shards[key])
	after.Limits = after.Limits[:1]
	h.change(key, after)                                        // tpm is dropped
	h.use(key, 1, map[string]int64{"rpm": 1000, "tpm": 70_000}) // and is back
	h.change(key, nil)                                          // merged away
	h.use(key, 1, map[string]int64{"rpm": 1000, "tpm": -9_000}) // split off again, with a settlement
	require.NoError(t, w.counter(t).apply(t.Context(), batch(h.records...)))
	h.mustBeCounted(t, w)
	require.Equal(t, []table.UsedTotal{{Limit: "rpm", Tokens: 3}, {Limit: "tpm", Tokens: 561}}, w.snapshot(t, hourly("alice", h.at)).Used)
}

// What the store does with a write: in any case a batch that is given again is
// counted once.
func TestEveryWriteThatFailsAndEveryThatOnlySeemsTo(t *testing.T) {
	for name, f := range map[string]fault.Fault{
		"refused":             fault.InternalError(),
		"failed, but applied": fault.InternalErrorAfter(),
		"reply lost":          {Kind: fault.ReplyLost},
		"reply hangs":         {Kind: fault.ReplyHangs},
		"hangs":               {Kind: fault.Hangs},
		"unreachable":         {Kind: fault.Unreachable},
		"throttled":           fault.Throttling(),
		"provisioned":         fault.ThroughputExceeded(),
		"another transaction": fault.TransactionConflict(),
	} {
		for _, times := range []int{1, attempts - 1, 2 * attempts} { // of 2 snapshots
			t.Run(fmt.Sprintf("%s %d times", name, times), func(t *testing.T) {
				w, h := newWorld(t), newHistory(1)
				h.one("alice", 0)
				h.one("alice", 3)
				c := w.counter(t)
				for range times {
					w.Fail("UpdateItem", f)
				}
				err := c.apply(t.Context(), batch(h.records...))
				require.Equal(t, times == 2*attempts, err != nil, "%v", err)
				if err != nil {
					require.NoError(t, c.apply(t.Context(), batch(h.records...)))
				}
				h.mustBeCounted(t, w)
				require.NoError(t, c.apply(t.Context(), batch(h.records...)), "given once more")
				h.mustBeCounted(t, w)
			})
		}
	}
}

// A member that hangs sends its write when another has counted more, less or
// something else of the same.
func TestALateWriteCountsNothingTwice(t *testing.T) {
	for _, others := range [][]int{{0, 1, 2, 3}, {0}, {0, 1}, {1, 3}, {0, 1, 2, 3, 4, 5}, {}} {
		t.Run(fmt.Sprint(others), func(t *testing.T) {
			w, h := newWorld(t), newHistory(1)
			for _, shard := range []int{0, 1, 0, 1, 0, 2} {
				h.one("alice", shard)
			}
			hold := &gate{next: w.Faults, here: make(chan struct{}), open: make(chan struct{})}
			hanging, other := w.counterVia(t, hold), w.counter(t)
			var some []*events.Event
			for _, i := range others {
				some = append(some, h.records[i])
			}
			ended := make(chan error)
			hanging.store.timeout = time.Minute
			go func() { ended <- hanging.apply(context.Background(), batch(h.records[:4]...)) }()
			<-hold.here
			require.NoError(t, other.apply(t.Context(), batch(some...)))
			close(hold.open)
			require.NoError(t, <-ended)
			require.NoError(t, other.apply(t.Context(), batch(h.records...)))
			h.mustBeCounted(t, w)
		})
	}
}

// A batch costs one write for each snapshot, whatever it tells of it.
func TestABatchWritesASnapshotOnce(t *testing.T) {
	w, h := newWorld(t), newHistory(1)
	for i := range 256 {
		h.one(fmt.Sprintf("entity-%d", i%3), i%32)
	}
	require.NoError(t, w.counter(t).apply(t.Context(), batch(h.records...)))
	require.Equal(t, len(h.totals), w.Calls("UpdateItem"))
	calls := w.Calls("")
	for i := range 256 {
		h.one(fmt.Sprintf("entity-%d", i%3), i%32)
	}
	require.NoError(t, w.counter(t).apply(t.Context(), batch(h.records[256:]...)))
	require.Equal(t, calls+len(h.totals), w.Calls(""), "nothing is read")
	h.mustBeCounted(t, w)
}

// The relay may have published a record twice, or the feed given it twice.
func TestARecordTwiceInABatchCountsOnce(t *testing.T) {
	w, h := newWorld(t), newHistory(1)
	h.one("alice", 0)
	h.one("alice", 1)
	h.one("alice", 0)
	r := h.records
	require.NoError(t, w.counter(t).apply(t.Context(), batch(r[0], r[0], r[1], r[0], r[2], r[1], r[2])))
	h.mustBeCounted(t, w)
}

func TestWhatUsesNothingWritesNothing(t *testing.T) {
	w, h := newWorld(t), newHistory(1)
	h.change(bucketOf("alice", 0), &events.Bucket{ShardCount: 1, WriteUnits: 1})
	h.change(bucketOf("alice", 0), &events.Bucket{ShardCount: 2, WriteUnits: 2})
	h.change(bucketOf("alice", 0), nil)
	require.NoError(t, w.counter(t).apply(t.Context(), batch(h.records...)))
	require.Zero(t, w.Calls(""))
}

// replayed is a record from the dead letters.
func replayed(e *events.Event, mark string) feed.Record {
	return feed.Record{Event: e, Replay: mark}
}

// A record from the dead letters comes behind others of its shard, and counts
// once all the same.
func TestAReplayCountsUnderItsMark(t *testing.T) {
	w, h := newWorld(t), newHistory(1)
	c := w.counter(t)
	for range 4 {
		h.one("alice", 0)
	}
	b := batch(h.records[0], h.records[2])
	b.Records = append(b.Records, replayed(h.records[1], "7"), feed.Record{Event: h.records[3]}, replayed(h.records[1], "7"))
	w.Fail("UpdateItem", fault.Fault{}, fault.Fault{}, fault.Fault{Kind: fault.ReplyLost})
	require.NoError(t, c.apply(t.Context(), b))
	h.mustBeCounted(t, w)
	b = &feed.Batch{Records: []feed.Record{replayed(h.records[1], "7")}}
	require.NoError(t, c.apply(t.Context(), b))
	h.mustBeCounted(t, w)
	require.Equal(t, []string{"7"}, w.snapshot(t, daily("alice", h.at)).Replays)
}

func TestASnapshotCountsSoManyReplays(t *testing.T) {
	w, h := newWorld(t), newHistory(1)
	c := w.counter(t)
	h.one("alice", 0)
	h.one("alice", 0)
	require.NoError(t, c.apply(t.Context(), batch(h.records[0])))
	marks := make([]string, table.MaxReplays)
	for i := range marks {
		marks[i] = strconv.Itoa(i)
	}
	require.NoError(t, w.set(t, daily("alice", h.at), "replays", &types.AttributeValueMemberSS{Value: marks}))
	b := &feed.Batch{Records: []feed.Record{replayed(h.records[1], "0"), replayed(h.records[1], "x")}}
	require.NoError(t, c.apply(t.Context(), b))
	require.Equal(t, map[int]string{1: "the daily snapshot of 2026-03-01T00:00:00Z counts 500 replays, and has no room for more"}, reasons(b))
	require.EqualValues(t, 3, w.snapshot(t, hourly("alice", h.at)).Acquires, "the hour has room for both marks")
	require.EqualValues(t, 1, w.snapshot(t, daily("alice", h.at)).Acquires)
}

// reasons are why records of a batch were refused.
func reasons(b *feed.Batch) map[int]string {
	texts := map[int]string{}
	for i, err := range b.Refused() {
		texts[i] = err.Error()
	}
	return texts
}

// Somebody who renames limits all day must not stop the lane: a batch of many
// limits is written in parts, and a snapshot that is full refuses.
func TestManyLimits(t *testing.T) {
	w, h := newWorld(t), newHistory(1)
	for i := range 64 {
		amounts := map[string]int64{}
		for j := range 16 {
			amounts[fmt.Sprintf("limit-%d-%d", i, j)] = 1000
		}
		h.shards = map[keys.Bucket]*events.Bucket{}
		h.use(bucketOf("alice", 0), 1, amounts)
	}
	require.NoError(t, w.counter(t).apply(t.Context(), batch(h.records...)))
	h.mustBeCounted(t, w)
	require.Equal(t, 2*64*16/table.MaxUsedLimits, w.Calls("UpdateItem"))
}

func TestAFullSnapshotRefuses(t *testing.T) {
	w, h := newWorld(t), newHistory(1)
	c := w.counter(t)
	h.one("alice", 0)
	require.NoError(t, c.apply(t.Context(), batch(h.records...)))
	for i := range maxSnapshotLimits / 100 {
		w.fill(t, daily("alice", h.at), 100*i, 100, 98)
	}
	for n := 4000; w.set(t, daily("alice", h.at), "pad", &types.AttributeValueMemberS{Value: strings.Repeat("x", n)}) != nil; n -= 10 {
		require.Positive(t, n, "the item can be filled")
	}
	h.use(bucketOf("alice", 0), 1, map[string]int64{strings.Repeat("n", 64): 1000})
	b := batch(h.records[1])
	require.NoError(t, c.apply(t.Context(), b))
	require.Equal(t, map[int]string{0: "the daily snapshot of 2026-03-01T00:00:00Z counts 4001 limits, and has no room for more"}, reasons(b))
	require.EqualValues(t, 2, w.snapshot(t, hourly("alice", h.at)).Acquires)
}

// What the store rejects for another reason is not given up: the lane waits.
func TestARejectedWriteWaits(t *testing.T) {
	w, h := newWorld(t), newHistory(1)
	h.one("alice", 0)
	w.Fail("UpdateItem", fault.Fault{Kind: fault.Refused, Refusal: fault.Refusal{Status: 400, Type: "com.amazon.coral.validate#ValidationException", Message: "?"}})
	b := batch(h.records...)
	require.ErrorIs(t, w.counter(t).apply(t.Context(), b), errRejected)
	require.Empty(t, reasons(b))
}

// fill adds n limits to a snapshot, with names of so many letters.
func (w *world) fill(t *testing.T, key keys.Usage, from, n, letters int) {
	t.Helper()
	names, values := map[string]string{}, table.Item{}
	var update strings.Builder
	for i := from; i < from+n; i++ {
		names["#n"+strconv.Itoa(i)] = fmt.Sprintf("u_%0*d", letters, i)
		update.WriteString(map[bool]string{true: "SET ", false: ", "}[i == from] + fmt.Sprintf("#n%d = :v", i))
	}
	values[":v"] = &types.AttributeValueMemberN{Value: "1"}
	expression := update.String()
	_, err := w.Direct.UpdateItem(t.Context(), &dynamodb.UpdateItemInput{
		TableName: &w.Table, Key: table.KeyItem(key.Key()), UpdateExpression: &expression,
		ExpressionAttributeNames: names, ExpressionAttributeValues: values,
	})
	require.NoError(t, err)
}

// set sets one attribute of a snapshot.
func (w *world) set(t *testing.T, key keys.Usage, attribute string, v types.AttributeValue) error {
	t.Helper()
	expression := "SET #n = :v"
	_, err := w.Direct.UpdateItem(t.Context(), &dynamodb.UpdateItemInput{
		TableName: &w.Table, Key: table.KeyItem(key.Key()), UpdateExpression: &expression,
		ExpressionAttributeNames: map[string]string{"#n": attribute}, ExpressionAttributeValues: table.Item{":v": v},
	})
	return err
}
