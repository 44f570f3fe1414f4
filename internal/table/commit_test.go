package table_test

import (
	"testing"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/stretchr/testify/require"

	"github.com/tidegate/tidegate/internal/table"
	"github.com/tidegate/tidegate/internal/table/tabletest"
	"github.com/tidegate/tidegate/pkg/bucket"
	"github.com/tidegate/tidegate/pkg/keys"
)

const (
	commitNow = bucket.Instant(1_000_000_000)
	commitCap = 100 * bucket.Milli
)

func commitKey() keys.Bucket {
	return keys.Bucket{Namespace: "AAAAAAAAAAA", Entity: "api-key-123", Resource: "gpt-4"}
}

func rpm() bucket.Limit {
	return bucket.Limit{Name: "rpm", Capacity: commitCap, Refill: commitCap, Period: 60_000}
}

// holding returns the bucket with a balance of so many tokens before the cap
// applies: more than the capacity is an idle bucket, less than 0 is a debt.
func holding(tokens int64) *table.Bucket {
	drawn := rpm().Window(bucket.Whole(), commitNow).Refilled - tokens*bucket.Milli
	return &table.Bucket{
		Key: commitKey(), Level: 1, Fingerprint: "print", LastWrite: "boot.1", Acquires: 3, WriteUnits: 3,
		Limits: []table.Limit{{Limit: rpm(), Drawn: drawn, Consumed: 3000}},
	}
}

// planned returns the commit of one operation, as a node plans it that knows the
// bucket as it is given.
func planned(known *table.Bucket, operation func(*bucket.Tally)) *table.Commit {
	l := known.Limits[0]
	tally := bucket.NewTally(l.Window(known.Shard(), commitNow), l.Drawn)
	operation(&tally)
	return &table.Commit{
		Key: known.Key, Guarded: true, Level: known.Level, Fingerprint: known.Fingerprint, Acquires: 1, WriteUnits: 1, Nonce: "boot.2",
		Limits: []table.LimitChange{{Name: l.Name, Change: tally.Change(), Consumed: tally.Consumed()}},
	}
}

func spend(tokens int64) func(*bucket.Tally) {
	return func(tally *bucket.Tally) { tally.Spend(tokens * bucket.Milli) }
}

func debit(tokens int64) func(*bucket.Tally) {
	return func(tally *bucket.Tally) { tally.Debit(tokens * bucket.Milli) }
}

func put(t *testing.T, b *tabletest.Bench, item *table.Bucket) {
	t.Helper()
	_, err := b.Direct.PutItem(t.Context(), &dynamodb.PutItemInput{TableName: &b.Table, Item: table.EncodeBucket(item)})
	require.NoError(t, err)
}

func itemAt(t *testing.T, b *tabletest.Bench) *table.Bucket {
	t.Helper()
	out, err := b.Direct.GetItem(t.Context(), table.ReadInput(b.Table, commitKey().Key()))
	require.NoError(t, err)
	if len(out.Item) == 0 {
		return nil
	}
	item, err := table.DecodeBucket(out.Item)
	require.NoError(t, err)
	return item
}

// applied sends a commit and reports whether its condition held. A refused commit
// brings the item that refused it, and changes nothing.
func applied(t *testing.T, b *tabletest.Bench, c *table.Commit) bool {
	t.Helper()
	before := itemAt(t, b)
	out, err := b.Direct.UpdateItem(t.Context(), c.Input(b.Table))
	if err == nil {
		after, err := table.DecodeBucket(out.Attributes)
		require.NoError(t, err)
		require.Equal(t, itemAt(t, b), after, "an applied write brings the new item")
		return true
	}
	var refused *types.ConditionalCheckFailedException
	require.ErrorAs(t, err, &refused)
	require.Equal(t, before, itemAt(t, b), "a refused write changes nothing")
	if before == nil {
		require.Empty(t, refused.Item)
		return false
	}
	truth, err := table.DecodeBucket(refused.Item)
	require.NoError(t, err)
	require.Equal(t, before, truth, "a refused write brings the truth")
	return false
}

// A commit is applied to the states it is right for, and to no other. The plans are
// those of pkg/bucket, so that neither the range nor its way into the condition can
// get lost.
func TestACommitIsAppliedWhereItIsRightAlone(t *testing.T) {
	const idle, busy = 150, 60 // tokens held; 150 of 100 overflow
	with := func(tokens int64, change func(*table.Bucket)) *table.Bucket {
		b := holding(tokens)
		change(b)
		return b
	}
	synced := with(busy, func(b *table.Bucket) { b.Fingerprint = "other" })
	split := with(busy, func(b *table.Bucket) { b.Level = 2 })
	without := with(busy, func(b *table.Bucket) { b.Limits[0].Name = "tpm" })
	for name, c := range map[string]struct {
		known     *table.Bucket
		operation func(*bucket.Tally)
		found     *table.Bucket // by the time the write arrives; nil: it is gone
		left      int64         // tokens, after an applied write
		refused   bool
	}{
		"busy spend":                             {known: holding(busy), operation: spend(10), found: holding(busy), left: 50},
		"busy spend, just full":                  {known: holding(busy), operation: spend(10), found: holding(100), left: 90},
		"busy spend, by now idle":                {known: holding(busy), operation: spend(10), found: holding(101), refused: true},
		"busy spend, exactly enough":             {known: holding(busy), operation: spend(10), found: holding(10), left: 0},
		"busy spend, short by now":               {known: holding(busy), operation: spend(10), found: holding(9), refused: true},
		"busy spend, under other settings":       {known: holding(busy), operation: spend(10), found: synced, refused: true},
		"busy spend, of a split shard":           {known: holding(busy), operation: spend(10), found: split, refused: true},
		"busy spend, the limit is gone":          {known: holding(busy), operation: spend(10), found: without, refused: true},
		"busy spend, the bucket is gone":         {known: holding(busy), operation: spend(10), refused: true},
		"idle spend":                             {known: holding(idle), operation: spend(10), found: holding(idle), left: 90},
		"idle spend, idle for longer":            {known: holding(idle), operation: spend(10), found: holding(idle + 50), left: 90},
		"idle spend, by now busy":                {known: holding(idle), operation: spend(10), found: holding(100), refused: true},
		"idle spend, the limit is gone":          {known: holding(idle), operation: spend(10), found: without, refused: true},
		"spend of nothing":                       {known: holding(busy), operation: spend(0), found: holding(0), left: 0},
		"spend of nothing, by now in debt":       {known: holding(busy), operation: spend(0), found: holding(-1), refused: true},
		"spend of nothing, under other settings": {known: holding(busy), operation: spend(0), found: synced, refused: true},
		"busy debit":                             {known: holding(busy), operation: debit(10), found: holding(-500), left: -510},
		"busy debit, by now idle":                {known: holding(busy), operation: debit(10), found: holding(101), refused: true},
		"busy debit, under other settings":       {known: holding(busy), operation: debit(10), found: synced, refused: true},
		"busy debit, of a split shard":           {known: holding(busy), operation: debit(10), found: split, refused: true},
		"idle debit, by now busy":                {known: holding(idle), operation: debit(10), found: holding(100), refused: true},
	} {
		t.Run(name, func(t *testing.T) {
			b := tabletest.New(t)
			if c.found != nil {
				put(t, b, c.found)
			}
			require.Equal(t, !c.refused, applied(t, b, planned(c.known, c.operation)))
			if !c.refused {
				l := itemAt(t, b).Find("rpm")
				require.Equal(t, c.left*bucket.Milli, l.Window(bucket.Whole(), commitNow).Balance(l.Drawn))
			}
		})
	}
}

// What overflowed is gone. A node that knows the bucket as busy spends from it after
// credits made it idle: the write is refused, and planned again it leaves no more
// than the capacity. Without the lower end of its range the bucket would admit what
// had overflowed, in the same millisecond.
func TestABusySpendDoesNotKeepWhatOverflowed(t *testing.T) {
	b := tabletest.New(t)
	known := holding(60)
	put(t, b, holding(150))
	require.False(t, applied(t, b, planned(known, spend(10))))
	admitted := int64(0)
	for applied(t, b, planned(itemAt(t, b), spend(10))) {
		admitted += 10
		if l := itemAt(t, b).Find("rpm"); l.Window(bucket.Whole(), commitNow).Balance(l.Drawn) < 10*bucket.Milli {
			break
		}
	}
	require.EqualValues(t, 100, admitted)
}
