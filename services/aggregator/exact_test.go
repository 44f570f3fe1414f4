package aggregator

import (
	"fmt"
	"math"
	"math/big"
	"sort"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/stretchr/testify/require"

	"github.com/tidegate/tidegate/engine/fault"
	"github.com/tidegate/tidegate/internal/feed"
	"github.com/tidegate/tidegate/internal/table"
	"github.com/tidegate/tidegate/pkg/keys"
)

// pad fills a snapshot, so that it has room for n bytes more.
func (w *world) pad(t *testing.T, key keys.Usage, room int) {
	t.Helper()
	for i := range maxSnapshotLimits / 100 {
		w.fill(t, key, 100*i, 100, 98)
	}
	last := func(n int) error {
		return w.set(t, key, "pad", &types.AttributeValueMemberS{Value: strings.Repeat("x", n)})
	}
	full := sort.Search(10_000, func(n int) bool { return last(n) != nil }) // the first length that does not fit
	require.NoError(t, last(full-1-room))
}

// replay gives a refused record again, as the dead letters do.
func replay(t *testing.T, c *counter, r *feed.Record) *feed.Batch {
	t.Helper()
	b := &feed.Batch{Records: []feed.Record{replayed(r.Event, r.Mark())}}
	require.NoError(t, c.apply(t.Context(), b))
	return b
}

// A record that one snapshot has no room for is counted by the others. Replayed, it is
// counted by the one that has room by then, and by no other again; whatever befalls the
// write that sets it apart, and however often the batch is given.
func TestARefusedRecordCountsOnceInEachSnapshot(t *testing.T) {
	for name, f := range map[string]fault.Fault{
		"applied": {}, "reply lost": {Kind: fault.ReplyLost}, "failed": fault.InternalError(), "failed, but applied": fault.InternalErrorAfter(), "throttled": fault.Throttling(),
	} {
		t.Run(name, func(t *testing.T) {
			w, h := newWorld(t), newHistory(1)
			c := w.counter(t)
			h.one("alice", 0)
			require.NoError(t, c.apply(t.Context(), batch(h.records...)))
			w.pad(t, daily("alice", h.at), 20)
			h.use(bucketOf("alice", 0), 1, map[string]int64{strings.Repeat("n", 64): 1000})
			w.Fail("UpdateItem", fault.Fault{}, fault.Fault{}, f, f)
			b := batch(h.records[1])
			require.NoError(t, c.apply(t.Context(), b))
			require.Len(t, b.Refused(), 1)
			b = batch(h.records[1])
			require.NoError(t, w.counter(t).apply(t.Context(), b), "given once more, to another aggregator")
			require.Len(t, b.Refused(), 1)
			require.EqualValues(t, 2, w.snapshot(t, hourly("alice", h.at)).Acquires)
			require.Equal(t, []string{b.Records[0].Mark()}, w.snapshot(t, hourly("alice", h.at)).Replays)

			again := replay(t, c, &b.Records[0])
			require.Len(t, again.Refused(), 1, "the day is full still")
			require.EqualValues(t, 2, w.snapshot(t, hourly("alice", h.at)).Acquires)
			require.NoError(t, w.set(t, daily("alice", h.at), "pad", &types.AttributeValueMemberS{Value: "x"}))
			require.Empty(t, replay(t, c, &again.Records[0]).Refused())
			require.Empty(t, replay(t, c, &again.Records[0]).Refused(), "and once more")
			require.EqualValues(t, 2, w.snapshot(t, hourly("alice", h.at)).Acquires)
			require.EqualValues(t, 2, w.snapshot(t, daily("alice", h.at)).Acquires)
		})
	}
}

// A snapshot that is full refuses the records that do not fit, and no other of the batch.
func TestAFullSnapshotCountsWhatFits(t *testing.T) {
	w, h := newWorld(t), newHistory(1)
	c := w.counter(t)
	h.one("alice", 0)
	require.NoError(t, c.apply(t.Context(), batch(h.records...)))
	w.pad(t, daily("alice", h.at), 0)
	h.one("alice", 0)
	h.use(bucketOf("alice", 0), 1, map[string]int64{strings.Repeat("n", 64): 1000})
	h.one("alice", 0)
	b := batch(h.records[1:]...)
	require.NoError(t, c.apply(t.Context(), b))
	require.Len(t, b.Refused(), 1)
	require.Contains(t, b.Refused(), 1)
	require.EqualValues(t, 3, w.snapshot(t, daily("alice", h.at)).Acquires)
	require.EqualValues(t, 4, w.snapshot(t, hourly("alice", h.at)).Acquires)
}

// Sums are exact beyond an int64 of millitokens: 4,000 debits of 2^40 tokens may share one
// write of a bucket, and records of several shards one batch.
func TestSumsOfABatchAreExact(t *testing.T) {
	const oneWrite = 4000 * (1 << 40) * 1000
	for name, sign := range map[string]int64{"debits": 1, "credits": -1} {
		t.Run(name, func(t *testing.T) {
			w, h := newWorld(t), newHistory(1)
			for shard := range 5 {
				h.use(bucketOf("bob", shard), 1, map[string]int64{"tpm": sign * oneWrite, "rpm": 1000})
			}
			require.NoError(t, w.counter(t).apply(t.Context(), batch(h.records...)))
			require.NoError(t, w.counter(t).apply(t.Context(), batch(h.records...)), "given once more")
			for _, key := range []keys.Usage{hourly("bob", h.at), daily("bob", h.at)} {
				u := w.snapshot(t, key)
				require.Equal(t, []table.UsedTotal{{Limit: "rpm", Tokens: 5}, {Limit: "tpm", Tokens: 5 * sign * (oneWrite / 1000)}}, u.Used)
				require.EqualValues(t, 5, u.Acquires)
			}
		})
	}
	t.Run("at the border", func(t *testing.T) {
		for _, c := range [][2]int64{{math.MaxInt64, 1}, {math.MaxInt64 - 1, 1}, {math.MinInt64, -1}, {math.MinInt64 + 1, -1}, {1, math.MaxInt64}, {math.MaxInt64, math.MinInt64}} {
			sums := map[string]int64{"tpm": c[0]}
			fits := new(big.Int).Add(big.NewInt(c[0]), big.NewInt(c[1])).IsInt64()
			require.Equal(t, !fits, tooMuch(sums, map[string]int64{"tpm": c[1]}), fmt.Sprint(c))
		}
	})
}
