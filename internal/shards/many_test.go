package shards_test

import (
	"errors"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tidegate/tidegate/engine/fault"
	"github.com/tidegate/tidegate/internal/shards"
	"github.com/tidegate/tidegate/internal/table"
	"github.com/tidegate/tidegate/internal/table/tabletest"
	"github.com/tidegate/tidegate/pkg/bucket"
	"github.com/tidegate/tidegate/pkg/keys"
)

// manyKey is the key of a bucket beside that of testKey.
func manyKey(i int) keys.Bucket {
	key := testKey(0)
	key.Resource = fmt.Sprint("model-", i)
	return key
}

// putTree stores the first shards of a bucket that is divided into of.
func (w *world) putTree(key keys.Bucket, shards, of int) {
	for key.Shard = range shards {
		s := bucket.Shard{Index: key.Shard, Count: of}
		l := perDay("rpm", 100)
		w.put(&table.Bucket{
			Key: key, Level: of, Fingerprint: "print", LastWrite: w.nonce(),
			Limits: []table.Limit{{Limit: l, Drawn: l.Window(s, w.now()).Full()}},
		})
	}
}

func (w *world) readMany(known []table.Item, wanted ...keys.Bucket) map[keys.Bucket]*shards.Found {
	w.t.Helper()
	found, err := shards.ReadMany(w.t.Context(), w.DB, w.Table, wanted, known)
	require.NoError(w.t, err)
	require.Len(w.t, found, len(wanted))
	return found
}

// Many buckets take a request for each hundred shards, and shards that are known none.
func TestManyBucketsAreReadInBatches(t *testing.T) {
	w := newWorld(t)
	const many = 150
	var wanted []keys.Bucket
	var known []table.Item
	for i := range many {
		wanted = append(wanted, manyKey(i))
		if i%3 > 0 { // the others do not exist
			w.putTree(manyKey(i), 1+i%3/2, 1+i%3/2)
		}
	}
	check := func(found map[keys.Bucket]*shards.Found, calls int) {
		t.Helper()
		for i, key := range wanted {
			require.NoError(t, found[key].Err)
			require.Len(t, found[key].Shards, i%3)
		}
		require.Equal(t, calls, w.Calls("BatchGetItem"))
	}
	check(w.readMany(nil, wanted...), 2+1) // the shards 0, and all of the 50 divided buckets
	for i, key := range wanted {
		if i%3 == 1 {
			known = append(known, table.EncodeBucket(w.readMany(nil, key)[key].Shards[0]))
		}
	}
	known = append(known, table.EncodeBucket(&table.Bucket{Key: manyKey(many + 1), Level: 1}))
	before := w.Calls("BatchGetItem")
	check(w.readMany(known, wanted...), before+1+1)
}

// Shards that split while they are read are read again; a bucket that stays incomplete, or
// that has a damaged item, fails alone.
func TestABucketOfManyFailsAlone(t *testing.T) {
	w := newWorld(t)
	const whole, torn, late, hurt = 0, 1, 2, 3
	w.putTree(manyKey(whole), 4, 4)
	w.putTree(manyKey(torn), 1, 2)
	w.putTree(manyKey(late), 1, 2)
	w.putTree(manyKey(hurt), 2, 2)
	damaged := manyKey(hurt)
	damaged.Shard = 1
	tabletest.Damage(t.Context(), t, w.Direct, w.Table, damaged, tabletest.Damages()["a wrong type"])
	reads := 0
	var onRead func()
	onRead = func() {
		if reads++; reads == 3 {
			w.putTree(manyKey(late), 2, 2)
		}
		w.Before("BatchGetItem", onRead)
	}
	w.Before("BatchGetItem", onRead)
	found := w.readMany(nil, manyKey(whole), manyKey(torn), manyKey(late), manyKey(hurt))
	require.NoError(t, found[manyKey(whole)].Err)
	require.Len(t, found[manyKey(whole)].Shards, 4)
	require.ErrorIs(t, found[manyKey(torn)].Err, shards.ErrUnsettled)
	require.NoError(t, found[manyKey(late)].Err)
	require.Len(t, found[manyKey(late)].Shards, 2)
	require.ErrorIs(t, found[manyKey(hurt)].Err, table.ErrDamaged)
	require.Len(t, found[manyKey(hurt)].Shards, 1)
}

// A failure of the store tells nothing of any bucket.
func TestAFailedReadOfManyBuckets(t *testing.T) {
	w := newWorld(t)
	w.putTree(manyKey(0), 2, 2)
	for fails := range 2 {
		w.Fail("BatchGetItem", append(make([]fault.Fault, fails), fault.Fault{Kind: fault.Refused})...)
		_, err := shards.ReadMany(t.Context(), w.DB, w.Table, []keys.Bucket{manyKey(0)}, nil)
		require.Error(t, err)
		require.False(t, errors.Is(err, table.ErrDamaged) || errors.Is(err, shards.ErrUnsettled))
	}
}
