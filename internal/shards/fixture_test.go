package shards_test

import (
	"strconv"
	"sync/atomic"
	"testing"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/stretchr/testify/require"

	"github.com/tidegate/tidegate/internal/shards"
	"github.com/tidegate/tidegate/internal/table"
	"github.com/tidegate/tidegate/internal/table/tabletest"
	"github.com/tidegate/tidegate/pkg/bucket"
	"github.com/tidegate/tidegate/pkg/keys"
)

const testNow = bucket.Instant(1_000_000_000)

func testKey(shard int) keys.Bucket {
	return keys.Bucket{Namespace: "AAAAAAAAAAA", Entity: "api-key-1", Resource: "gpt-4", Shard: shard}
}

func perDay(name string, tokens int64) bucket.Limit {
	return bucket.Limit{Name: name, Capacity: tokens * bucket.Milli, Refill: tokens * bucket.Milli, Period: 86_400_000}
}

// world is a table with a bucket, and a store that is at it.
type world struct {
	*tabletest.Bench
	t       *testing.T
	store   *shards.Store
	nonces  atomic.Int64
	elapsed atomic.Int64 // milliseconds since testNow
}

func newWorld(t *testing.T) *world {
	w := &world{Bench: tabletest.New(t), t: t}
	w.store = w.another()
	return w
}

func (w *world) another() *shards.Store {
	return shards.NewStore(w.DB, w.Table, func() (bucket.Instant, error) { return w.now(), nil }, w.nonce)
}

func (w *world) now() bucket.Instant { return testNow + bucket.Instant(w.elapsed.Load()) }

func (w *world) nonce() string { return "boot." + strconv.FormatInt(w.nonces.Add(1), 10) }

// spent makes the bucket, with so many tokens of each limit spent.
func (w *world) spent(tokens int64, ls ...bucket.Limit) {
	w.t.Helper()
	b := &table.Bucket{Key: testKey(0), Level: 1, Fingerprint: "print", LastWrite: w.nonce()}
	for _, l := range ls {
		drawn := l.Window(bucket.Whole(), w.now()).Full() + tokens*bucket.Milli
		b.Limits = append(b.Limits, table.Limit{Limit: l, Drawn: drawn, Consumed: tokens * bucket.Milli})
	}
	w.put(b)
}

func (w *world) put(b *table.Bucket) {
	w.t.Helper()
	_, err := w.Direct.PutItem(w.t.Context(), &dynamodb.PutItemInput{TableName: &w.Table, Item: table.EncodeBucket(b)})
	require.NoError(w.t, err)
}

// divide doubles the bucket's shards until there are so many.
func (w *world) divide(count int) (tree shards.Tree) {
	w.t.Helper()
	for from := 1; from < count; from *= 2 {
		var err error
		tree, err = w.store.Double(w.t.Context(), testKey(0), from)
		require.NoError(w.t, err)
		require.Len(w.t, tree, 2*from)
	}
	return tree
}

// tree is the bucket as the table has it.
func (w *world) tree() shards.Tree {
	w.t.Helper()
	direct := shards.NewStore(w.Direct, w.Table, nil, nil)
	tree, err := direct.Read(w.t.Context(), testKey(0), 0)
	require.NoError(w.t, err)
	return tree
}

// left is what the bucket holds of a limit, in millitokens.
func (w *world) left(limit string) int64 {
	w.t.Helper()
	return w.tree().Pool(limit).Available(w.now())
}

// drawn is the sum of a limit's drawn counts.
func (w *world) drawn(limit string) (sum int64) {
	w.t.Helper()
	for _, b := range w.tree() {
		sum += b.Find(limit).Drawn
	}
	return sum
}

// spend takes tokens from a shard if it holds them, as admission would.
func (w *world) spend(shard int, limit string, tokens int64) bool {
	w.t.Helper()
	b := w.tree().Find(shard)
	c, ok := w.planSpend(b, limit, tokens)
	return ok && w.commit(c)
}

func (w *world) planSpend(b *table.Bucket, limit string, tokens int64) (*table.Commit, bool) {
	l := b.Find(limit)
	tally := bucket.NewTally(l.Window(b.Shard(), w.now()), l.Drawn)
	ok := tally.Spend(tokens * bucket.Milli)
	return &table.Commit{
		Key: b.Key, Guarded: true, Level: b.Level, Fingerprint: b.Fingerprint, Acquires: 1, WriteUnits: 1, Nonce: w.nonce(),
		Limits: []table.LimitChange{{Name: limit, Change: tally.Change(), Consumed: tally.Consumed()}},
	}, ok
}

// commit reports whether the write was applied; a refused one is the only other outcome.
func (w *world) commit(c *table.Commit) bool {
	w.t.Helper()
	_, err := w.Direct.UpdateItem(w.t.Context(), c.Input(w.Table))
	if err == nil {
		return true
	}
	var refused *types.ConditionalCheckFailedException
	require.ErrorAs(w.t, err, &refused)
	return false
}
