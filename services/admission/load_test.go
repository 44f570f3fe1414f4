package admission

import (
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/stretchr/testify/require"

	"github.com/tidegate/tidegate/engine/fault"
	"github.com/tidegate/tidegate/pkg/api"
	"github.com/tidegate/tidegate/pkg/events"
)

// heardLoads sums up what is reported until enough says so.
func heardLoads(t *testing.T, heard *nats.Subscription, enough func(sum map[int]events.Load) bool) map[int]events.Load {
	t.Helper()
	sum := map[int]events.Load{}
	for !enough(sum) {
		m, err := heard.NextMsg(patience)
		require.NoError(t, err)
		report, err := events.DecodeLoad(m.Data)
		require.NoError(t, err)
		require.LessOrEqual(t, report.FromMs, report.ToMs)
		for _, l := range report.Loads {
			before := sum[l.Key.Shard]
			l.FailedUnits += before.FailedUnits
			l.Requests += before.Requests
			l.Denied += before.Denied
			sum[l.Key.Shard] = l
		}
	}
	return sum
}

func hearLoads(t *testing.T, nc *nats.Conn) *nats.Subscription {
	t.Helper()
	heard, err := nc.SubscribeSync(events.LoadSubject)
	require.NoError(t, err)
	require.NoError(t, nc.Flush())
	return heard
}

// What is asked of a bucket, what it is refused and what requests cost is told of
// the whole bucket, whichever shard serves them; what a shard is asked for in vain,
// of the shard.
func TestTheLoadOfABucketIsReported(t *testing.T) {
	for _, count := range []int{1, 4} {
		w := shardedWorld(t, 100, count)
		n := w.node(t, Tuning{LoadEvery: time.Hour}) // a window with few requests is not told of
		nc := w.nats.Connect(t)
		heard := hearLoads(t, nc)
		for range 10 {
			require.True(t, acquire(t, nc, rpmOf("e", 10)).Allowed)
		}
		for range 390 {
			require.False(t, acquire(t, nc, rpmOf("e", 2)).Allowed)
		}
		require.True(t, acquire(t, nc, rpmOf("e", 101)).Never)
		n.router.reportLoad()
		sum := heardLoads(t, heard, func(sum map[int]events.Load) bool { return sum[0].Denied >= 391 })
		require.EqualValues(t, 401, sum[0].Requests)
		require.EqualValues(t, 391, sum[0].Denied)
		require.Equal(t, map[string]int64{"rpm": 2}, sum[0].Costs, "neither the few dear ones nor the impossible one")
	}
}

func TestFailedWritesAreReportedOfTheirShard(t *testing.T) {
	w := shardedWorld(t, 1, 1)
	n := w.node(t, Tuning{})
	nc := w.nats.Connect(t)
	heard := hearLoads(t, nc)
	require.True(t, acquire(t, nc, rpmOf("e", 0)).Allowed)
	throttles := atomic.Int64{}
	n.faults.Match(hotShard0(fault.TableWriteKeyRange, func() bool { return throttles.Add(1) <= 3 }))
	require.True(t, acquire(t, nc, rpmOf("e", 1)).Allowed)
	n.router.reportLoad()
	sum := heardLoads(t, heard, func(sum map[int]events.Load) bool { return sum[0].FailedUnits >= 3 })
	require.EqualValues(t, 3, sum[0].FailedUnits)

	// The node still takes the bucket for one with a token, finds that it is wrong,
	// and has nothing to write from then on.
	other := w.elsewhere(t)
	m := other.node(t, Tuning{})
	connection := other.nats.Connect(t)
	heard = hearLoads(t, connection)
	require.False(t, acquire(t, connection, rpmOf("e", 1)).Allowed)
	m.router.reportLoad()
	sum = heardLoads(t, heard, func(sum map[int]events.Load) bool { return sum[0].FailedUnits >= 1 })
	require.EqualValues(t, 1, sum[0].FailedUnits, "the write that was refused")
}

func loadsOf(r *router) []events.Load {
	_, told := r.takeLoads(testNow)
	return told
}

func TestLittleUsedBucketsAreNotReported(t *testing.T) {
	w := shardedWorld(t, 100, 1)
	n := w.node(t, Tuning{LoadEvery: time.Hour})
	nc := w.nats.Connect(t)
	for range busyRequests - 2 {
		require.True(t, acquire(t, nc, rpmOf("e", 1)).Allowed)
	}
	require.Empty(t, loadsOf(n.router))
	require.Empty(t, n.router.member(w.bucketKey("e")).bucket().costs.Load().usual())
}

// Costs are remembered while much is asked, and forgotten once little is.
func TestCostsAreThoseOfRecentRequests(t *testing.T) {
	m := &member{router: rememberingRouter(t, 1<<20)}
	m.writer.settings.settings.Store(testSettings(perMinute("rpm", 1000), perMinute("tpm", 1000)))
	ask := func(times int, rpm, tpm int64) {
		for range times {
			m.noteRequest(api.Amounts{{Name: "rpm", Tokens: rpm}, {Name: "tpm", Tokens: tpm}})
		}
	}
	ask(busyRequests, 1, 0)
	require.Equal(t, map[string]int64{"rpm": 1}, m.bucket().costs.Load().usual())
	ask(keptCosts, 5, 7)
	ask(2, 9, 900)
	require.Equal(t, map[string]int64{"rpm": 5, "tpm": 7}, m.bucket().costs.Load().usual(), "one in a hundred may cost more")
	ask(1, 9, 900)
	require.Equal(t, map[string]int64{"rpm": 9, "tpm": 900}, m.bucket().costs.Load().usual())
	require.Len(t, loadsOf(m.router), 1)
	require.Empty(t, loadsOf(m.router))
	ask(1, 1, 1)
	require.Empty(t, loadsOf(m.router))
	ask(1, 1, 1)
	require.Empty(t, m.bucket().costs.Load().usual())
}
