package aggregator

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tidegate/tidegate/internal/feed"
	"github.com/tidegate/tidegate/pkg/api"
	"github.com/tidegate/tidegate/pkg/bucket"
	"github.com/tidegate/tidegate/pkg/events"
	"github.com/tidegate/tidegate/pkg/keys"
)

const (
	ns    = "AAAAAAAAAAA"
	label = "2026-03-01T00:00:00.000"
)

// midnight is in the middle of the histories.
func midnight() time.Time { return time.Date(2026, 3, 2, 0, 0, 0, 0, time.UTC) }

// total is what a snapshot must come to.
type total struct {
	used     map[string]int64 // millitokens; 0 is left out
	acquires int64
}

// history makes buckets live, writes down what they tell the feed, and sums up,
// by itself, what was used.
type history struct {
	random   *rand.Rand
	at       time.Time
	sequence int
	shards   map[keys.Bucket]*events.Bucket
	totals   map[keys.Usage]*total
	records  []*events.Event
}

func newHistory(seed uint64) *history {
	return &history{
		random: rand.New(rand.NewPCG(seed, 0)), at: midnight().Add(-90 * time.Minute), sequence: 1 << 40,
		shards: map[keys.Bucket]*events.Bucket{}, totals: map[keys.Usage]*total{},
	}
}

func bucketOf(entity string, shard int) keys.Bucket {
	return keys.Bucket{Namespace: ns, Entity: entity, Resource: "gpt-4", Shard: shard}
}

// change brings a shard to a new state, nil for none.
func (h *history) change(key keys.Bucket, after *events.Bucket) {
	before := h.shards[key]
	delete(h.shards, key)
	if after != nil {
		h.shards[key] = after
	}
	h.sequence += 1 + h.random.IntN(3)
	position, err := events.NewPosition(label, strconv.Itoa(h.sequence))
	if err != nil {
		panic(err)
	}
	h.records = append(h.records, &events.Event{
		Position: position, AtMs: h.at.UnixMilli(), Key: key,
		Bucket: &events.Change[events.Bucket]{Old: copyOf(before), New: copyOf(after)},
	})
}

func copyOf(b *events.Bucket) *events.Bucket {
	if b == nil {
		return nil
	}
	c := *b
	c.Limits = slices.Clone(b.Limits)
	return &c
}

// use adds to the counters of a shard, a new one where it has none, and to the
// totals. Amounts are millitokens.
func (h *history) use(key keys.Bucket, acquires int64, amounts map[string]int64) {
	after := copyOf(h.shards[key])
	if after == nil {
		after = &events.Bucket{ShardCount: 32}
	}
	for _, name := range slices.Sorted(maps.Keys(amounts)) {
		after.Limits = with(after.Limits, name)
		for i := range after.Limits {
			if after.Limits[i].Name == name {
				after.Limits[i].Consumed += amounts[name]
			}
		}
	}
	after.Acquires += acquires
	after.WriteUnits++
	h.sum(key, acquires, amounts)
	h.change(key, after)
}

func with(limits []events.BucketLimit, name string) []events.BucketLimit {
	if slices.ContainsFunc(limits, func(l events.BucketLimit) bool { return l.Name == name }) {
		return limits
	}
	return append(limits, events.BucketLimit{Name: name, Capacity: 1_000_000, Refill: 1_000_000, PeriodMs: 60_000})
}

func (h *history) sum(key keys.Bucket, acquires int64, amounts map[string]int64) {
	for window, start := range map[string]string{
		"hourly": h.at.Format("2006-01-02T15") + ":00:00Z",
		"daily":  h.at.Format("2006-01-02") + "T00:00:00Z",
	} {
		of := keys.Usage{Namespace: ns, Entity: key.Entity, Resource: key.Resource, Window: window, Start: start}
		if h.totals[of] == nil {
			h.totals[of] = &total{used: map[string]int64{}}
		}
		for name, milli := range amounts {
			h.totals[of].used[name] += milli
		}
		h.totals[of].acquires += acquires
	}
}

// step lets something happen to one of n entities.
func (h *history) step(n int) {
	entity := fmt.Sprintf("entity-%d", h.random.IntN(n))
	key := bucketOf(entity, h.random.IntN(4))
	h.at = h.at.Add(time.Duration(h.random.IntN(40)) * time.Second)
	switch now := h.shards[key]; {
	case now == nil || h.random.IntN(10) > 1:
		h.use(key, int64(h.random.IntN(3)), map[string]int64{"rpm": 1000, "tpm": 1000 * int64(h.random.IntN(1000)-300)})
	case h.random.IntN(3) == 0: // merged, removed or expired
		h.change(key, nil)
	case h.random.IntN(2) == 0: // a limit is dropped
		after := copyOf(now)
		after.Limits = slices.DeleteFunc(after.Limits, func(l events.BucketLimit) bool { return l.Name == "tpm" })
		h.change(key, after)
	default: // synced: nothing is used
		after := copyOf(now)
		after.Fingerprint += "x"
		after.WriteUnits++
		after.Limits = with(after.Limits, "daily")
		h.change(key, after)
	}
}

// batch is records as a lane brings them.
func batch(records ...*events.Event) *feed.Batch {
	b := &feed.Batch{}
	for _, e := range records {
		b.Records = append(b.Records, feed.Record{Event: e})
	}
	return b
}

// mustBeCounted fails unless the snapshots are those that the history wants, and
// no others.
func (h *history) mustBeCounted(t *testing.T, w *world) {
	t.Helper()
	want, got := map[keys.Usage]total{}, map[keys.Usage]total{}
	for key, sum := range h.totals {
		want[key] = total{nonzero(sum.used), sum.acquires}
	}
	for key := range want {
		u := w.snapshot(t, key)
		sum := total{map[string]int64{}, u.Acquires}
		for _, l := range u.Used {
			sum.used[l.Limit] = l.Tokens*bucket.Milli + l.Milli
		}
		sum.used = nonzero(sum.used)
		got[key] = sum
	}
	require.Equal(t, want, got)
	require.Len(t, w.snapshots(t), len(want), "there are snapshots of nothing")
}

func nonzero(used map[string]int64) map[string]int64 {
	maps.DeleteFunc(used, func(_ string, milli int64) bool { return milli == 0 })
	return used
}

// hourly and daily are the keys of an entity's snapshots at a time.
func hourly(entity string, at time.Time) keys.Usage { return usageKey(entity, api.WindowHourly, at) }
func daily(entity string, at time.Time) keys.Usage  { return usageKey(entity, api.WindowDaily, at) }

func usageKey(entity string, name api.Window, at time.Time) keys.Usage {
	start, _ := name.Span(at.UnixMilli())
	return keys.Usage{Namespace: ns, Entity: entity, Resource: "gpt-4", Window: string(name), Start: keys.UsageStart(start)}
}
