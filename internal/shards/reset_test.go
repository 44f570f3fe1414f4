package shards_test

import (
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/stretchr/testify/require"

	"github.com/tidegate/tidegate/engine/fault"
	"github.com/tidegate/tidegate/internal/audit"
	"github.com/tidegate/tidegate/internal/shards"
	"github.com/tidegate/tidegate/internal/table"
	"github.com/tidegate/tidegate/internal/table/tabletest"
	"github.com/tidegate/tidegate/pkg/api"
	"github.com/tidegate/tidegate/pkg/bucket"
)

func (w *world) log() *audit.Log { return audit.NewLog(w.DB, w.Table, w.Now) }

func (w *world) operator() *shards.Operator { return shards.NewOperator(w.store, w.log()) }

// events are those of the bucket's entity.
func (w *world) events() []api.AuditEvent {
	w.t.Helper()
	reply, err := w.log().List(w.t.Context(), testKey(0).Namespace, api.AuditListRequest{LimitsTarget: api.LimitsTarget{Entity: testKey(0).Entity}})
	require.NoError(w.t, err)
	return reply.Events
}

// reset takes the bucket away, which has so many shards, and looks that it is told of
// once, and as whose doing.
func (w *world) reset(count int) {
	w.t.Helper()
	n, err := w.operator().Reset(w.t.Context(), api.Principal{User: "ops"}, testKey(0))
	require.NoError(w.t, err)
	require.Equal(w.t, count, n)
	require.Empty(w.t, w.tree())
	told := w.events()
	require.Len(w.t, told, 1)
	require.Equal(w.t, api.AuditBucketReset, told[0].Action)
	require.Equal(w.t, "ops", told[0].Who.User)
}

// resetOutcomes are what can become of the transaction that resets two shards.
func resetOutcomes() map[string][]fault.Fault {
	all := outcomes()
	delete(all, "conflict") // a transaction is cancelled by one,
	// with a reason for each of its writes: two shards, the head of the log, and the event.
	all["cancelled by a conflict"] = []fault.Fault{fault.TransactionCanceled("None", "TransactionConflict", "None", "None")}
	return all
}

// Whatever becomes of a request, a reset takes all shards, once, and tells of it once.
func TestAResetTakesAllShardsOrNone(t *testing.T) {
	for name, faults := range resetOutcomes() {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.spent(650, perDay("rpm", 600))
			w.divide(2)
			w.Fail("TransactWriteItems", faults...)
			w.reset(2)

			n, err := w.operator().Reset(t.Context(), api.Principal{}, testKey(0))
			require.NoError(t, err)
			require.Zero(t, n)
			require.Len(t, w.events(), 1, "nothing was done")
		})
	}
}

// A split between what was read and what is written is not left behind.
func TestAResetTakesShardsThatCameMeanwhile(t *testing.T) {
	w := newWorld(t)
	w.spent(4, perDay("rpm", 600))
	direct := shards.NewStore(w.Direct, w.Table, func() (bucket.Instant, error) { return w.now(), nil }, w.nonce)
	w.Before("TransactWriteItems", func() {
		_, err := direct.Double(t.Context(), testKey(0), 1)
		require.NoError(t, err)
	})
	w.reset(2)
}

// A bucket from which somebody took a shard by hand can be read by nobody; a reset
// mends it.
func TestAResetMendsWhatIsNoTree(t *testing.T) {
	w := newWorld(t)
	w.spent(4, perDay("rpm", 600))
	w.divide(2)
	_, err := w.Direct.DeleteItem(t.Context(), &dynamodb.DeleteItemInput{TableName: &w.Table, Key: table.KeyItem(testKey(0).Key())})
	require.NoError(t, err)
	_, err = w.operator().Describe(t.Context(), testKey(0))
	require.ErrorIs(t, err, shards.ErrUnsettled)
	w.reset(1)
}

// Shards that cannot be decoded go by their keys, shard 0 too; all that could be read
// is in the event. Others than those of the bucket stay.
func TestAResetMendsWhatCannotBeDecoded(t *testing.T) {
	for name, damage := range tabletest.Damages() {
		for _, of := range [][]int{{0}, {1}, {0, 1}} {
			t.Run(fmt.Sprint(name, of), func(t *testing.T) {
				w := newWorld(t)
				w.spent(4, perDay("rpm", 600))
				w.divide(2)
				other := testKey(0)
				other.Entity = "api-key-2"
				w.put(&table.Bucket{Key: other, Level: 1})
				for _, shard := range of {
					tabletest.Damage(t.Context(), t, w.Direct, w.Table, testKey(shard), damage)
				}
				_, err := w.store.Read(t.Context(), testKey(0), 0)
				require.ErrorIs(t, err, table.ErrDamaged)
				shown, err := w.operator().Describe(t.Context(), testKey(0))
				require.NoError(t, err)
				require.Len(t, shown.Shards, 2-len(of))
				require.Len(t, shown.Damaged, len(of))
				require.Empty(t, shown.Limits)
				for i, shard := range of {
					require.EqualValues(t, shard, shown.Damaged[i])
				}

				w.reset(2)
				var before api.BucketReply
				require.NoError(t, json.Unmarshal(w.events()[0].Before, &before))
				require.Equal(t, shown, before)
				left, err := w.store.Read(t.Context(), other, 0)
				require.NoError(t, err)
				require.Len(t, left, 1)
			})
		}
	}
}

// Whatever becomes of the request, a reset of a damaged bucket is made and told of once.
func TestAResetOfADamagedBucketThroughEveryFault(t *testing.T) {
	for name, faults := range resetOutcomes() {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.spent(4, perDay("rpm", 600))
			w.divide(2)
			tabletest.Damage(t.Context(), t, w.Direct, w.Table, testKey(0), tabletest.Damages()["a wrong type"])
			w.Fail("TransactWriteItems", faults...)
			w.reset(2)
		})
	}
}

func TestABucketIsShown(t *testing.T) {
	w := newWorld(t)
	shown, err := w.operator().Describe(t.Context(), testKey(0))
	require.NoError(t, err)
	require.Equal(t, api.BucketReply{AtMs: testTime().UnixMilli(), Wanted: 1, Shards: []api.BucketShard{}}, shown)
	w.spent(4, perDay("rpm", 600))
	w.divide(2)
	shown, err = w.operator().Describe(t.Context(), testKey(1))
	require.NoError(t, err)
	half := func(shard, units int64) api.BucketShard {
		return api.BucketShard{Shard: shard, Level: 2, WriteUnits: units, Limits: []api.LimitCapacity{{Name: "rpm", Capacity: 300, Available: 298}}}
	}
	require.Equal(t, api.BucketReply{
		AtMs: testTime().UnixMilli(), Wanted: 2, Shards: []api.BucketShard{half(0, 2), half(1, 0)},
		Limits: []api.LimitCapacity{{Name: "rpm", Capacity: 600, Available: 596}},
	}, shown)
}

func testTime() time.Time { return testNow.Time() }
