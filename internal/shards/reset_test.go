package shards_test

import (
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/stretchr/testify/require"

	"github.com/tidegate/tidegate/internal/audit"
	"github.com/tidegate/tidegate/internal/localdynamo/fault"
	"github.com/tidegate/tidegate/internal/shards"
	"github.com/tidegate/tidegate/internal/table"
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

// Whatever becomes of a request, a reset takes all shards, once, and tells of it once.
func TestAResetTakesAllShardsOrNone(t *testing.T) {
	all := outcomes()
	delete(all, "conflict") // a transaction is cancelled by one,
	// with a reason for each of its writes: two shards, the head of the log, and the event.
	all["cancelled by a conflict"] = []fault.Fault{fault.TransactionCanceled("None", "TransactionConflict", "None", "None")}
	for name, faults := range all {
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
	_, err = w.operator().Look(t.Context(), testKey(0))
	require.ErrorIs(t, err, shards.ErrUnsettled)
	w.reset(1)
}

func TestABucketIsShown(t *testing.T) {
	w := newWorld(t)
	shown, err := w.operator().Look(t.Context(), testKey(0))
	require.NoError(t, err)
	require.Equal(t, api.BucketReply{AtMs: testTime().UnixMilli(), Wanted: 1, Shards: []api.BucketShard{}}, shown)
	w.spent(4, perDay("rpm", 600))
	w.divide(2)
	shown, err = w.operator().Look(t.Context(), testKey(1))
	require.NoError(t, err)
	half := func(shard, units int64) api.BucketShard {
		return api.BucketShard{Shard: shard, Level: 2, WriteUnits: units, Limits: []api.LimitCapacity{{Name: "rpm", Capacity: 300, Available: 298}}}
	}
	require.Equal(t, api.BucketReply{AtMs: testTime().UnixMilli(), Wanted: 2, Shards: []api.BucketShard{half(0, 2), half(1, 0)}}, shown)
}

func testTime() time.Time { return testNow.Time() }
