package admission

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tidegate/tidegate/engine/fault"
	"github.com/tidegate/tidegate/internal/shards"
	"github.com/tidegate/tidegate/internal/store"
	"github.com/tidegate/tidegate/internal/table"
	"github.com/tidegate/tidegate/pkg/api"
	"github.com/tidegate/tidegate/pkg/bucket"
	"github.com/tidegate/tidegate/pkg/keys"
)

// divider changes the shards of buckets as a sharder would, past all faults.
func (w *world) divider() *shards.Store {
	var nonces atomic.Int64
	now := func() (bucket.Instant, error) { return bucket.At(w.now()), nil }
	return shards.NewStore(w.client, w.table, now, func() string { return "divider." + strconv.FormatInt(nonces.Add(1), 10) })
}

func (w *world) bucketKey(entity string) keys.Bucket {
	return keys.Bucket{Namespace: w.ns, Entity: entity, Resource: "gpt-4"}
}

// divide doubles a bucket until it has so many shards.
func (w *world) divide(t *testing.T, entity string, count int) {
	t.Helper()
	for from := max(1, w.item(t, entity, "gpt-4").Want); from < count; from *= 2 {
		tree, err := w.divider().Double(t.Context(), w.bucketKey(entity), from)
		require.NoError(t, err)
		require.Len(t, tree, 2*from)
	}
}

func (w *world) merge(t *testing.T, entity string, count int) {
	t.Helper()
	w.forgets = true
	tree, err := w.divider().Shrink(t.Context(), w.bucketKey(entity), count)
	require.NoError(t, err)
	require.Len(t, tree, count)
}

func (w *world) tree(t *testing.T, entity string) shards.Tree {
	t.Helper()
	tree, err := w.divider().Read(t.Context(), w.bucketKey(entity), 0)
	require.NoError(t, err)
	return tree
}

// leftOf is what a bucket holds of a limit, in millitokens.
func (w *world) leftOf(t *testing.T, entity, limit string) int64 {
	t.Helper()
	return w.tree(t, entity).Pool(limit).Available(bucket.At(w.now()))
}

func rpmOf(entity string, tokens int64) string {
	return fmt.Sprintf(`{"entity":%q,"resource":"gpt-4","consume":{"rpm":%d}}`, entity, tokens)
}

// shardedWorld has a bucket of so many tokens a day over so many shards, full but for nothing.
func shardedWorld(t *testing.T, tokens int64, count int) *world {
	t.Helper()
	w := newWorld(t)
	w.setLimits(t, api.LimitsTarget{Resource: "gpt-4"}, perDay("rpm", tokens))
	n := w.node(t, Tuning{})
	require.True(t, acquire(t, w.nats.Connect(t), rpmOf("e", 0)).Allowed)
	require.NoError(t, n.stop())
	w.divide(t, "e", count)
	return w
}

func TestExactlyTheCapacityIsAdmittedOverShards(t *testing.T) {
	for _, nodes := range []int{1, 2} {
		w := shardedWorld(t, 10, 4)
		for range nodes {
			w.node(t, Tuning{})
		}
		nc := w.nats.Connect(t)
		for i := range int64(10) {
			reply := acquire(t, nc, rpmOf("e", 1))
			require.True(t, reply.Allowed, "token %d of 10", i+1)
			require.EqualValues(t, 10, reply.Limits[0].Capacity)
			if nodes == 1 {
				require.Equal(t, 9-i, reply.Limits[0].Available, "over all shards")
			}
		}
		denied := acquire(t, nc, rpmOf("e", 1))
		require.False(t, denied.Allowed)
		require.Zero(t, denied.Limits[0].Available)
		require.InDelta(t, 8_640_000, denied.RetryAfterMs, 60_000, "a tenth of a day")
		require.Len(t, w.tree(t, "e"), 4)
	}
}

func TestACostAboveAShardsShareIsGathered(t *testing.T) {
	w := shardedWorld(t, 100, 8)
	n := w.node(t, Tuning{})
	nc := w.nats.Connect(t)
	reply := acquire(t, nc, rpmOf("e", 60))
	require.True(t, reply.Allowed)
	require.EqualValues(t, 40, reply.Limits[0].Available)
	denied := acquire(t, nc, rpmOf("e", 41))
	require.False(t, denied.Allowed)
	require.EqualValues(t, 40, denied.Limits[0].Available)
	require.True(t, acquire(t, nc, rpmOf("e", 101)).Never)

	more := ask[api.AdjustReply](t, nc, api.VerbAdjust, adjustBody(reply.Lease, `{"rpm":10}`))
	require.Len(t, more.Limits, 1)
	require.EqualValues(t, 10, more.Limits[0].Requested)
	require.InDelta(t, 35, more.Limits[0].Available, 5, "a debit goes to one shard, which may fall into debt")
	less := ask[api.AdjustReply](t, nc, api.VerbAdjust, adjustBody(more.Lease, `{"rpm":-65}`))
	require.Len(t, less.Limits, 1, "one bucket is told of once")
	require.EqualValues(t, -65, less.Limits[0].Requested)
	require.InDelta(t, 95_000, w.leftOf(t, "e", "rpm"), 1000)
	require.True(t, ask[api.ReleaseReply](t, nc, api.VerbRelease, releaseBody(less.Lease)).Released)
	require.InDelta(t, 100_000, w.leftOf(t, "e", "rpm"), 1000)
	require.EqualValues(t, 0, consumedBy(w.tree(t, "e")))
	require.Positive(t, int(n.faults.Counts()["TransactWriteItems"].Calls))
}

// consumedBy is what all shards count as consumed of rpm, in millitokens.
func consumedBy(tree shards.Tree) (sum int64) {
	for _, b := range tree {
		sum += b.Find("rpm").Consumed
	}
	return sum
}

// Whatever becomes of the request that gathers, its tokens are taken once at most,
// and not by one who is denied.
func TestGatherFailsOnTheSafeSide(t *testing.T) {
	for name, tt := range map[string]struct {
		faults  []fault.Fault
		refused bool // the caller gets no answer, for the last fault stays
		left    int64
	}{
		"reply lost":          {[]fault.Fault{{Kind: fault.ReplyLost}}, false, 40_000},
		"failed, but applied": {[]fault.Fault{fault.InternalErrorAfter()}, false, 40_000},
		"failed":              {[]fault.Fault{fault.InternalError()}, false, 40_000},
		"conflict":            {[]fault.Fault{fault.TransactionConflict(), fault.TransactionConflict()}, false, 40_000},
		"throttled":           {[]fault.Fault{fault.Throttling()}, false, 40_000},
		"never known":         {[]fault.Fault{{Kind: fault.ReplyLost}}, true, 40_000},
		"in conflict always":  {[]fault.Fault{fault.TransactionConflict()}, true, 100_000},
	} {
		t.Run(name, func(t *testing.T) {
			w := shardedWorld(t, 100, 8)
			n := w.node(t, Tuning{})
			left := atomic.Int64{}
			n.faults.Match(func(operation string, _ []byte) fault.Fault {
				if operation != "TransactWriteItems" {
					return fault.Fault{}
				}
				switch i, last := int(left.Add(1))-1, len(tt.faults)-1; {
				case i <= last:
					return tt.faults[i]
				case tt.refused:
					return tt.faults[last]
				}
				return fault.Fault{}
			})
			timeout := patience
			if tt.refused {
				timeout = 3 * time.Second
			}
			m := send(t, w.nats.Connect(t), api.VerbAcquire, rpmOf("e", 60), timeout)
			require.Equal(t, tt.refused, m.Header.Get(api.HeaderErrorCode) != "", string(m.Data))
			if tt.refused {
				require.Equal(t, api.CodeUnavailable, api.DecodeError(m.Data).Code)
			}
			require.InDelta(t, tt.left, w.leftOf(t, "e", "rpm"), 1000)
		})
	}
}

// A node that took the bucket for one shard, and one that took it for many, both
// learn what it is by then.
func TestNodesFollowWhatBecomesOfTheShards(t *testing.T) {
	w := newWorld(t)
	w.setLimits(t, api.LimitsTarget{Resource: "gpt-4"}, perDay("rpm", 600))
	w.node(t, Tuning{})
	nc := w.nats.Connect(t)
	first := acquire(t, nc, rpmOf("e", 4))
	require.True(t, first.Allowed)
	w.divide(t, "e", 8)
	second := acquire(t, nc, rpmOf("e", 6))
	require.True(t, second.Allowed)
	require.EqualValues(t, 590, second.Limits[0].Available)
	gathered := acquire(t, nc, rpmOf("e", 290))
	require.True(t, gathered.Allowed)
	require.EqualValues(t, 300, gathered.Limits[0].Available)

	w.merge(t, "e", 2)
	third := acquire(t, nc, rpmOf("e", 100))
	require.True(t, third.Allowed)
	require.EqualValues(t, 200, third.Limits[0].Available)
	w.merge(t, "e", 1)
	last := acquire(t, nc, rpmOf("e", 150))
	require.True(t, last.Allowed)
	require.EqualValues(t, 50, last.Limits[0].Available)

	for i, lease := range []string{first.Lease, second.Lease, gathered.Lease, third.Lease, last.Lease} {
		require.True(t, ask[api.ReleaseReply](t, nc, api.VerbRelease, releaseBody(lease)).Released)
		require.InDelta(t, []int64{54, 60, 350, 450, 600}[i]*1000, w.leftOf(t, "e", "rpm"), 1000, "a lease of a shard that is gone is settled where it went")
	}
	require.Len(t, w.tree(t, "e"), 1, "no shard comes back")
}

func TestALeaseIsSettledAtItsShard(t *testing.T) {
	w := shardedWorld(t, 100, 4)
	w.node(t, Tuning{})
	w.node(t, Tuning{})
	nc := w.nats.Connect(t)
	lease := acquire(t, nc, rpmOf("e", 20)).Lease
	spent := slices.IndexFunc(w.tree(t, "e"), func(b *table.Bucket) bool { return b.Find("rpm").Consumed == 20_000 })
	require.GreaterOrEqual(t, spent, 0)
	more := ask[api.AdjustReply](t, nc, api.VerbAdjust, adjustBody(lease, `{"rpm":20}`))
	require.EqualValues(t, 40_000, w.tree(t, "e")[spent].Find("rpm").Consumed)
	ask[api.ReleaseReply](t, nc, api.VerbRelease, releaseBody(more.Lease))
	require.Zero(t, w.tree(t, "e")[spent].Find("rpm").Consumed)
	require.EqualValues(t, 100_000, w.leftOf(t, "e", "rpm"))
}

func TestChangedLimitsReachEveryShard(t *testing.T) {
	w := shardedWorld(t, 100, 4)
	w.node(t, Tuning{})
	nc := w.nats.Connect(t)
	require.True(t, acquire(t, nc, rpmOf("e", 40)).Allowed)
	target := api.LimitsTarget{Resource: "gpt-4"}
	w.setLimits(t, target, perDay("rpm", 20), perDay("tpm", 1000))
	require.NoError(t, nc.Publish(api.ConfigSubject(api.DefaultNamespace), []byte(`{"resource":"gpt-4"}`)))
	require.NoError(t, nc.Flush())
	require.Eventually(t, func() bool {
		status := ask[api.StatusReply](t, nc, api.VerbStatus, `{"entity":"e","resource":"gpt-4"}`)
		return len(status.Limits) == 2 && status.Limits[0].Available == 20 && status.Limits[1].Available == 1000
	}, patience, 20*time.Millisecond)
	var reply api.AcquireReply
	require.Eventually(t, func() bool { // status reads what is stored, acquires what the node has heard of
		m := send(t, nc, api.VerbAcquire, `{"entity":"e","resource":"gpt-4","consume":{"rpm":20,"tpm":700}}`, patience)
		return m.Header.Get(api.HeaderErrorCode) == "" && json.Unmarshal(m.Data, &reply) == nil
	}, patience, 20*time.Millisecond)
	require.True(t, reply.Allowed, "gathered from shards that are brought to the new limits first")
	require.False(t, acquire(t, nc, rpmOf("e", 1)).Allowed)
	for _, b := range w.tree(t, "e") {
		require.EqualValues(t, 20_000, b.Find("rpm").Capacity)
		require.NotNil(t, b.Find("tpm"))
	}
}

// A shard that is wanted and not there is split off by who meets the bucket.
func TestMissingShardsAreSplitOff(t *testing.T) {
	w := shardedWorld(t, 100, 2)
	w.node(t, Tuning{})
	tree := w.tree(t, "e")
	zero := tree.Find(0)
	split := shards.PlanSplit(bucket.At(time.Now()), zero, "test.1")
	split.Want.From, split.Want.To = 2, 4
	applied, err := w.divider().Transact(t.Context(), split.Writes(w.table))
	require.NoError(t, err)
	require.True(t, applied)
	require.Len(t, w.tree(t, "e"), 3)
	require.True(t, acquire(t, w.nats.Connect(t), rpmOf("e", 1)).Allowed)
	require.Eventually(t, func() bool { return len(w.tree(t, "e")) == 4 }, patience, 5*time.Millisecond)
	require.InDelta(t, 99_000, w.leftOf(t, "e", "rpm"), 100)
}

// Parents are divided like any bucket, and what a cascade took from several of
// their shards it takes back.
func TestCascadesSpendFromDividedParents(t *testing.T) {
	w := newWorld(t)
	w.setLimits(t, own("parent"), perDay("rpm", 100))
	w.setLimits(t, own("child"), perDay("rpm", 60))
	w.under(t, "child", "parent")
	w.node(t, Tuning{})
	nc := w.nats.Connect(t)
	first := acquire(t, nc, rpmOf("child", 1))
	require.True(t, first.Allowed)
	w.divide(t, "parent", 4)
	lease := acquire(t, nc, rpmOf("child", 50))
	require.True(t, lease.Allowed)
	require.EqualValues(t, 9, lease.Limits[0].Available)
	require.EqualValues(t, 49, lease.Limits[1].Available)
	denied := acquire(t, nc, rpmOf("child", 40))
	require.False(t, denied.Allowed)
	require.EqualValues(t, 49, denied.Limits[1].Available, "what the parent spent is taken back")
	require.InDelta(t, 49_000, w.leftOf(t, "parent", "rpm"), 100)
	require.True(t, ask[api.ReleaseReply](t, nc, api.VerbRelease, releaseBody(lease.Lease)).Released)
	require.InDelta(t, 99_000, w.leftOf(t, "parent", "rpm"), 100)
	require.InDelta(t, 59_000, w.leftOf(t, "child", "rpm"), 100)
}

// A node that forgets most of what it sees, while nothing grows old, still finds what
// the shards hold, and that they hold no more.
func TestANodeThatRemembersLittleStillDecides(t *testing.T) {
	w, _ := newManualWorld(t)
	w.setLimits(t, api.LimitsTarget{Resource: "gpt-4"}, perDay("rpm", 80))
	forgetful, other := w.node(t, Tuning{Remember: 1}), w.node(t, Tuning{})
	require.True(t, admits(t, forgetful.spend(w, "e", 1)))
	w.divide(t, "e", 8)
	for i := range 79 {
		require.True(t, admits(t, []*node{forgetful, other}[i%2].spend(w, "e", 1)), "token %d", i+2)
	}
	require.False(t, admits(t, forgetful.spend(w, "e", 1)))
	require.False(t, admits(t, other.spend(w, "e", 1)))
}

// A lease of any shard is adjusted and released there, and after merges at the shard
// that took it over, whichever node is asked.
func TestALeaseOfAnyShardIsSettledThereAndAfterMergesWhereItWent(t *testing.T) {
	w := shardedWorld(t, 800, 8)
	nodes := []*node{w.node(t, Tuning{}), w.node(t, Tuning{})}
	amounts := api.Amounts{{Name: "rpm", Tokens: 10}}
	takes := make([]result, 8)
	for shard := range takes {
		key := w.bucketKey("e")
		key.Shard = shard
		takes[shard] = nodes[shard%2].doAt(subcall{nodes[shard%2].router.member(key), operation{amounts: amounts, part: true}})[0]
		require.True(t, admits(t, takes[shard]))
	}
	consumed := func(counts ...int64) {
		t.Helper()
		for _, b := range w.tree(t, "e") {
			require.Equal(t, counts[b.Key.Shard]*bucket.Milli, b.Find("rpm").Consumed, "shard %d", b.Key.Shard)
		}
	}
	settle := func(shard int, factor int64) {
		t.Helper()
		for _, res := range nodes[(shard+1)%2].give(w, "e", takes[shard], amounts, factor) {
			require.NoError(t, res.err)
		}
	}
	settle(3, 1)  // 10 more
	settle(6, -1) // all back
	consumed(10, 10, 10, 20, 10, 10, 0, 10)
	w.merge(t, "e", 4) // whose own counters stay; those of 4 to 7 go
	settle(7, -1)      // at 3
	settle(4, 1)       // at 0
	consumed(20, 10, 10, 10)
	require.InDelta(t, (800-80)*bucket.Milli, w.leftOf(t, "e", "rpm"), 100)
	w.merge(t, "e", 1)
	settle(5, -1)
	settle(2, 1)
	consumed(20)
	require.InDelta(t, (800-80)*bucket.Milli, w.leftOf(t, "e", "rpm"), 100)
	require.Len(t, w.tree(t, "e"), 1)
}

func TestALateWriterOfAMergedShardLearnsHowManyAreWanted(t *testing.T) {
	w := shardedWorld(t, 80, 8)
	n := w.node(t, Tuning{})
	part := operation{amounts: api.Amounts{{Name: "rpm", Tokens: 1}}, part: true}
	late := make([]*member, 8)
	for shard := range late {
		key := w.bucketKey("e")
		key.Shard = shard
		late[shard] = n.router.member(key)
		require.True(t, admits(t, n.doAt(subcall{late[shard], part})[0]))
	}
	w.merge(t, "e", 2)
	for shard := 2; shard < 8; shard++ {
		res := n.doAt(subcall{late[shard], part})[0]
		require.NoError(t, res.err)
		require.Equal(t, verdictMoved, res.verdict, "shard %d is gone", shard)
	}
	require.Len(t, w.tree(t, "e"), 2)
	for range 72 {
		require.True(t, admits(t, n.spend(w, "e", 1)))
	}
	require.False(t, admits(t, n.spend(w, "e", 1)))
	require.Len(t, w.tree(t, "e"), 2, "no shard came back")
	require.Len(t, n.router.member(w.bucketKey("e")).bucket().whole.Load().tree, 2)
}

// A clock that was set keeps nobody from a bucket of several shards for longer than it
// takes to ask the store for the time.
func TestAClockThatWasSetIsCheckedForDividedBuckets(t *testing.T) {
	m := new(manual)
	var set atomic.Int64
	w := newWorldAt(t, &world{now: m.now, clock: func() store.ClockSource {
		return func() store.ClockReading { return m.clock(time.Duration(set.Load()))() }
	}})
	w.setLimits(t, api.LimitsTarget{Resource: "gpt-4"}, perDay("rpm", 600))
	n := w.node(t, Tuning{})
	require.True(t, admits(t, n.spend(w, "e", 1)))
	w.divide(t, "e", 4)
	for n.router.member(w.bucketKey("e")).bucket().whole.Load() == nil {
		require.True(t, admits(t, n.spend(w, "e", 1)))
	}
	set.Store(int64(time.Second))
	require.True(t, admits(t, n.spend(w, "e", 1)))
}
