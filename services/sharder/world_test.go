package sharder

import (
	"log/slog"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/require"

	"github.com/tidegate/tidegate/engine"
	"github.com/tidegate/tidegate/internal/audit"
	"github.com/tidegate/tidegate/internal/config"
	"github.com/tidegate/tidegate/internal/embednats/natstest"
	"github.com/tidegate/tidegate/internal/feed"
	"github.com/tidegate/tidegate/internal/shards"
	"github.com/tidegate/tidegate/internal/store"
	"github.com/tidegate/tidegate/internal/table"
	"github.com/tidegate/tidegate/internal/table/tabletest"
	"github.com/tidegate/tidegate/pkg/api"
	"github.com/tidegate/tidegate/pkg/bucket"
	"github.com/tidegate/tidegate/pkg/events"
	"github.com/tidegate/tidegate/pkg/keys"
)

const ns = "AAAAAAAAAAA"

func testKey(shard int) keys.Bucket {
	return keys.Bucket{Namespace: ns, Entity: "api-key-1", Resource: "gpt-4", Shard: shard}
}

// world is a table, reached through faults, on a time that passes when a test says
// so, and a NATS server.
type world struct {
	*tabletest.Bench
	t        *testing.T
	key      keys.Bucket // of the bucket that tests look at
	nats     *natstest.Server
	elapsed  atomic.Int64 // nanoseconds since worldStart
	sequence atomic.Int64 // of the table's stream
}

func worldStart() time.Time { return time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC) }

func newWorld(t *testing.T) *world {
	t.Helper()
	w := &world{t: t, key: testKey(0), nats: natstest.Start(t)}
	w.Bench = tabletest.Behind(t, engine.New(engine.Options{Now: w.now}).HTTPClient(), w.now)
	return w
}

func (w *world) now() time.Time { return worldStart().Add(time.Duration(w.elapsed.Load())) }

// clock is a machine's, which is right.
func (w *world) clock() store.ClockReading {
	return store.ClockReading{Wall: w.now(), Mono: time.Hour + time.Duration(w.elapsed.Load())}
}

func (w *world) ms() int64 { return w.now().UnixMilli() }

func (w *world) pass(d time.Duration) { w.elapsed.Add(int64(d)) }

// sharder is one that does nothing by itself.
func (w *world) sharder() *Sharder {
	w.t.Helper()
	s, err := New(Config{
		NATS: w.nats.Connect(w.t), DynamoDB: engine.Config(w.Faults, "us-east-1"), Table: w.Table, Member: "member-" + strconv.FormatInt(w.sequence.Add(1), 10),
		Clock: w.clock, Log: slog.New(slog.DiscardHandler), Metrics: prometheus.NewRegistry(),
	})
	require.NoError(w.t, err)
	return s
}

// usualWorld has a sharder that knows of the usual bucket.
func usualWorld(t *testing.T) (*world, *Sharder) {
	t.Helper()
	w := newWorld(t)
	s := w.sharder()
	w.usual(s)
	return w, s
}

// turn makes the steps that are due now, of all buckets, and returns them.
func (s *Sharder) turn(t *testing.T) (made []step) {
	t.Helper()
	for _, e := range s.tracker.due(s.nowMs(), func(keys.Bucket) bool { return true }, defaultSteps, defaultSteps) {
		s.carry(t.Context(), e)
		made = append(made, e.step)
	}
	return made
}

func (s *Sharder) counted(k kind, result string) int {
	return int(testutil.ToFloat64(s.metrics.steps.WithLabelValues(k.String(), result)))
}

func perDay(name string, tokens int64) bucket.Limit {
	return bucket.Limit{Name: name, Capacity: tokens * bucket.Milli, Refill: tokens * bucket.Milli, Period: 86_400_000}
}

// create makes the bucket, full but for some tokens, and tells the sharders.
func (w *world) create(tokens int64, ls []bucket.Limit, told ...*Sharder) {
	w.t.Helper()
	now := bucket.At(w.now())
	resolved := config.Resolved{Limits: ls}
	b := &table.Bucket{Key: w.key, Level: 1, Fingerprint: config.Fingerprint(&resolved), WriteUnits: 1, LastWrite: "test.0"}
	for _, l := range ls {
		b.Limits = append(b.Limits, table.Limit{Limit: l, Drawn: l.Window(bucket.Whole(), now).Full() + tokens*bucket.Milli, Consumed: tokens * bucket.Milli})
	}
	w.put(b)
	w.tell(w.record(nil, b), told...)
}

// usual makes a bucket of 600 rpm of which 4 are spent, and tells the sharders.
func (w *world) usual(told ...*Sharder) {
	w.t.Helper()
	w.create(4, []bucket.Limit{perDay("rpm", 600)}, told...)
}

func (w *world) direct() *shards.Store {
	return shards.NewStore(w.Direct, w.Table, func() (bucket.Instant, error) { return bucket.At(w.now()), nil }, func() string {
		return "test." + strconv.FormatInt(w.sequence.Add(1), 10)
	})
}

// tree is the bucket as the table has it.
func (w *world) tree() shards.Tree {
	w.t.Helper()
	tree, err := w.direct().Read(w.t.Context(), w.key, 0)
	require.NoError(w.t, err)
	return tree
}

// left is what the bucket holds of rpm, in millitokens.
func (w *world) left() int64 {
	w.t.Helper()
	return w.tree().Pool("rpm").Available(bucket.At(w.now()))
}

// load makes a second pass in which so many write units are spent, spread over the
// shards, and tells the sharders.
func (w *world) load(units int64, told ...*Sharder) {
	w.t.Helper()
	w.pass(time.Second)
	tree := w.tree()
	for i, b := range tree {
		share := bucket.Shard{Index: i, Count: len(tree)}.Share(units)
		if share == 0 {
			continue
		}
		after := *b
		after.WriteUnits += share
		w.cost(b, share)
		w.tell(w.record(b, &after), told...)
	}
}

// cost lets a shard have cost so much more.
func (w *world) cost(b *table.Bucket, units int64) {
	w.t.Helper()
	c := table.Commit{Key: b.Key, Guarded: true, Level: b.Level, Fingerprint: b.Fingerprint, WriteUnits: units, Nonce: "test.load"}
	_, err := w.Direct.UpdateItem(w.t.Context(), c.Input(w.Table))
	require.NoError(w.t, err)
}

// record is what the feed tells of a shard's change; nil for one that is not there.
func (w *world) record(before, after *table.Bucket) feed.Record {
	w.t.Helper()
	there := after
	if there == nil {
		there = before
	}
	position, err := events.NewPosition("2026-03-01T00:00:00.000", strconv.FormatInt(w.sequence.Add(1), 10))
	require.NoError(w.t, err)
	return feed.Record{Event: &events.Event{
		Position: position, AtMs: w.ms() / 1000 * 1000, Key: there.Key,
		Bucket: &events.Change[events.Bucket]{Old: imageOf(before), New: imageOf(after)},
	}}
}

func imageOf(b *table.Bucket) *events.Bucket {
	if b == nil {
		return nil
	}
	image := &events.Bucket{ShardCount: b.Level, Want: b.Want, Fingerprint: b.Fingerprint, Acquires: b.Acquires, WriteUnits: b.WriteUnits}
	for _, l := range b.Limits {
		image.Limits = append(image.Limits, events.BucketLimit{
			Name: l.Name, Capacity: l.Capacity, Refill: l.Refill, PeriodMs: l.Period, Drawn: l.Drawn, Consumed: l.Consumed,
		})
	}
	return image
}

func (w *world) tell(r feed.Record, told ...*Sharder) {
	w.t.Helper()
	for _, s := range told {
		require.NoError(w.t, s.follow(w.t.Context(), &feed.Batch{Records: []feed.Record{r}}))
	}
}

// report is what an admission node would say of the last second.
func (w *world) report(told *Sharder, loads ...events.Load) {
	w.t.Helper()
	data, err := events.EncodeLoad(&events.LoadReport{Node: "node", FromMs: w.ms() - 1000, ToMs: w.ms(), Loads: loads})
	require.NoError(w.t, err)
	told.heard(data)
}

// seconds lets time pass under a constant load.
func (w *world) seconds(n int, load int64, told ...*Sharder) {
	w.t.Helper()
	for range n {
		w.load(load, told...)
		for _, s := range told {
			s.turn(w.t)
		}
	}
}

// quiet lets minutes pass without any load.
func (w *world) quiet(minutes int, told ...*Sharder) {
	w.t.Helper()
	for range minutes {
		w.pass(time.Minute)
		for _, s := range told {
			s.turn(w.t)
		}
	}
}

func (w *world) put(b *table.Bucket) {
	w.t.Helper()
	_, err := w.Direct.PutItem(w.t.Context(), &dynamodb.PutItemInput{TableName: &w.Table, Item: table.EncodeBucket(b)})
	require.NoError(w.t, err)
}

func (w *world) remove(b *table.Bucket) {
	w.t.Helper()
	_, err := w.Direct.DeleteItem(w.t.Context(), &dynamodb.DeleteItemInput{TableName: &w.Table, Key: table.KeyItem(b.Key.Key())})
	require.NoError(w.t, err)
}

func (w *world) stored() *config.LimitStore {
	return config.NewLimitStore(w.Direct, w.Table, audit.NewLog(w.Direct, w.Table, w.Now))
}

// setLimits stores so many tokens of rpm a day.
func (w *world) setLimits(tokens int64) {
	w.t.Helper()
	_, err := w.stored().Set(w.t.Context(), ns, api.Principal{}, api.LimitsSetRequest{
		LimitsTarget: api.LimitsTarget{Resource: testKey(0).Resource},
		Limits:       []api.Limit{{Name: "rpm", Capacity: tokens, RefillAmount: tokens, RefillPeriodSeconds: 86_400}},
	})
	require.NoError(w.t, err)
}

func (w *world) resolve() config.Resolved {
	w.t.Helper()
	settings, err := w.stored().Resolve(w.t.Context(), ns, testKey(0).Entity, testKey(0).Resource)
	require.NoError(w.t, err)
	return settings
}
