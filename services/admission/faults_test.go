package admission

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/stretchr/testify/require"

	"github.com/tidegate/tidegate/engine/fault"
	"github.com/tidegate/tidegate/pkg/api"
	"github.com/tidegate/tidegate/pkg/keys"
)

func natsMsg(verb api.Verb, body string) *nats.Msg {
	m := nats.NewMsg(api.Subject(api.DefaultNamespace, verb))
	m.Data = []byte(body)
	return m
}

// once strikes the next request of an operation with a fault, and no other.
func once(n *node, operation string, f fault.Fault) {
	var struck atomic.Bool
	n.faults.Match(func(op string, _ []byte) fault.Fault {
		if op == operation && struck.CompareAndSwap(false, true) {
			return f
		}
		return fault.Fault{}
	})
}

// always strikes every request of the operations; none named: all.
func always(n *node, f fault.Fault, operations ...string) {
	n.faults.Match(func(op string, _ []byte) fault.Fault {
		for _, o := range operations {
			if o == op {
				return f
			}
		}
		if len(operations) == 0 {
			return f
		}
		return fault.Fault{}
	})
}

// Every write is tried as applied, refused, failed, and failed but applied:
// never is a spend applied twice or admitted twice, and whoever is admitted has
// spent.
func TestASpendThroughEveryFault(t *testing.T) {
	for _, write := range []string{"PutItem", "UpdateItem"} { // the create form, the commit form
		for name, c := range map[string]struct {
			fault    fault.Fault
			admitted bool
			spent    int64
		}{
			"applied":                          {fault.Fault{}, true, 1},
			"throttled, provisioned":           {fault.ThroughputExceeded(fault.Reason{Reason: fault.TableWriteKeyRange}), true, 1},
			"throttled, on demand":             {fault.Throttling(fault.Reason{Reason: fault.IndexWriteKeyRange}), true, 1},
			"transaction conflict":             {fault.TransactionConflict(), true, 1},
			"failed before, no connection":     {fault.Fault{Kind: fault.Unreachable}, false, 0},
			"failed before, 500":               {fault.InternalError(), false, 0},
			"failed after, 500":                {fault.InternalErrorAfter(), true, 1},
			"reply lost":                       {fault.Fault{Kind: fault.ReplyLost}, true, 1},
			"reply hangs":                      {fault.Fault{Kind: fault.ReplyHangs}, true, 1},
			"arrives after the caller gave up": {fault.Fault{Kind: fault.Late, Delay: 1}, false, 1},
		} {
			t.Run(write+"/"+name, func(t *testing.T) {
				t.Parallel()
				w := newWorld(t)
				rpmPerDay(t, w, 10)
				n, arrive := w.nodeOfLate(t)
				nc := w.nats.Connect(t)
				already := int64(0)
				if write == "UpdateItem" {
					require.True(t, acquire(t, nc, one).Allowed)
					already = 1
				}
				once(n, write, c.fault)
				m := send(t, nc, api.VerbAcquire, one, patience)
				arrive()
				n.faults.Wait()
				if c.admitted {
					require.Empty(t, m.Header.Get(api.HeaderErrorCode), string(m.Data))
				} else {
					require.Equal(t, api.CodeUnavailable, api.DecodeError(m.Data).Code)
				}
				spent := -already
				for _, shard := range w.tree(t, "api-key-123") { // a throttle doubles them
					spent += shard.Find("rpm").Consumed / 1000
				}
				require.Equal(t, c.spent, spent)

				// Service goes on, and the truth is known again.
				reply := acquire(t, nc, one)
				require.True(t, reply.Allowed)
				require.Equal(t, 10-already-spent-1, reply.Limits[0].Available)
			})
		}
	}
}

// nodeOfLate is a node whose late requests to the store arrive when the test says so,
// which is to be after the answer.
func (w *world) nodeOfLate(t *testing.T) (n *node, arrive func()) {
	t.Helper()
	now := make(chan struct{})
	arrive = sync.OnceFunc(func() { close(now) })
	t.Cleanup(arrive)
	n = w.nodeWith(t, Tuning{StoreTimeout: maxStoreCall}, fault.Options{
		Sleep: func(context.Context, time.Duration) error { <-now; return nil },
	})
	return n, arrive
}

// A refused write brings the truth: another node had spent meanwhile.
func TestASpendAgainstStaleStateIsRefusedAndPlannedAgain(t *testing.T) {
	w := newWorld(t)
	rpmPerDay(t, w, 10)
	a, b := w.node(t, Tuning{}), w.node(t, Tuning{})
	nc := w.nats.Connect(t)
	body := func(n int) string {
		return fmt.Sprintf(`{"entity":"e","resource":"gpt-4","consume":{"rpm":%d}}`, n)
	}
	admitted := 0
	for range 40 {
		if acquire(t, nc, body(1)).Allowed { // any of the two nodes
			admitted++
		}
	}
	require.Equal(t, 10, admitted)
	require.EqualValues(t, 10, w.item(t, "e", "gpt-4").Acquires)
	require.NotZero(t, a.faults.Total().Calls)
	require.NotZero(t, b.faults.Total().Calls)
}

// Whatever the store does, an answer comes within the caller's time, by policy;
// when the store is back, so is the service. Time stands between the moment at which
// the answer has to leave and the end of the caller's patience until it has left.
func TestUnavailablePolicy(t *testing.T) {
	for name, f := range map[string]fault.Fault{
		"down":      {Kind: fault.Unreachable},
		"failing":   fault.InternalError(),
		"throttled": fault.Throttling(fault.Reason{Reason: fault.TableWriteKeyRange}),
		"hanging":   {Kind: fault.Late, Delay: 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w, m := newManualWorld(t)
			rpmPerDay(t, w, 1000)
			n, arrive := w.nodeOfLate(t)
			nc := w.nats.Connect(t)
			require.True(t, acquire(t, nc, one).Allowed)
			always(n, f)
			require.Equal(t, api.CodeUnavailable, api.DecodeError(n.sendDue(t, m, nc, one).Data).Code)
			open := n.sendDue(t, m, nc, strings.Replace(one, `}}`, `},"on_unavailable":"allow"}`, 1))
			require.JSONEq(t, `{"allowed":true,"lease":"","degraded":true,"limits":[]}`, string(open.Data))
			unknown := refusedWithin(t, nc, strings.Replace(one, `}}`, `},"on_unavailable":"perhaps"}`, 1), patience)
			require.Equal(t, api.CodeInvalidPolicy, unknown.Code, "what is wrong with a request never fails open")

			n.faults.Match(nil)
			arrive()
			require.Eventually(t, func() bool {
				return send(t, nc, api.VerbAcquire, one, patience).Header.Get(api.HeaderErrorCode) == ""
			}, patience, 10*time.Millisecond)
		})
	}
}

// sendDue sends an acquire whose answer is due as soon as the node has it.
func (n *node) sendDue(t *testing.T, m *manual, nc *nats.Conn, body string) *nats.Msg {
	t.Helper()
	const timeout = 100 * time.Millisecond
	idle := func() bool { return n.pending.Load() == 0 }
	require.Eventually(t, idle, patience, tickle)
	request := natsMsg(api.VerbAcquire, body)
	request.Header.Set(api.HeaderTimeout, api.FormatTimeout(timeout))
	request.Reply = nc.NewInbox()
	replies, err := nc.SubscribeSync(request.Reply)
	require.NoError(t, err)
	defer func() { _ = replies.Unsubscribe() }()
	require.NoError(t, nc.PublishMsg(request))
	require.Eventually(t, func() bool { return !idle() || answeredOne(replies) }, patience, tickle)
	m.pass(timeout - answerMargin(timeout)/2)
	reply, err := replies.NextMsg(patience)
	require.NoError(t, err, "the answer does not leave when it is due")
	return reply
}

// answeredOne reports whether a reply is there already.
func answeredOne(replies *nats.Subscription) bool {
	waiting, _, err := replies.Pending()
	return err == nil && waiting > 0
}

// refusedWithin sends a request and requires its refusal before the caller
// stops waiting.
func refusedWithin(t *testing.T, nc *nats.Conn, body string, timeout time.Duration) *api.Error {
	t.Helper()
	m := natsMsg(api.VerbAcquire, body)
	m.Header.Set(api.HeaderTimeout, api.FormatTimeout(timeout))
	reply, err := nc.RequestMsg(m, timeout+patience)
	require.NoError(t, err)
	return api.DecodeError(reply.Data)
}

// The stored policy is remembered through an outage.
func TestStoredPolicySurvivesTheOutage(t *testing.T) {
	w := newWorld(t)
	_, err := w.limits.Set(t.Context(), w.ns, api.Principal{}, api.LimitsSetRequest{
		LimitsTarget: api.LimitsTarget{Resource: "gpt-4"}, Limits: []api.Limit{perDay("rpm", 10)}, OnUnavailable: api.PolicyAllow,
	})
	require.NoError(t, err)
	n := w.node(t, Tuning{})
	nc := w.nats.Connect(t)
	require.True(t, acquire(t, nc, one).Allowed)
	always(n, fault.Fault{Kind: fault.Unreachable})
	reply := acquire(t, nc, one)
	require.True(t, reply.Allowed)
	require.True(t, reply.Degraded)
	require.Empty(t, reply.Lease)
	require.Empty(t, ask[api.AdjustReply](t, nc, api.VerbAdjust, `{"lease":"","deltas":{"rpm":5}}`).Lease)
	require.True(t, ask[api.ReleaseReply](t, nc, api.VerbRelease, `{"lease":""}`).Released)
}

// The stored policy decides at whichever step of an acquire the outage comes,
// and the policy of a request before it.
func TestStoredPolicyInTheMiddleOfAnAcquire(t *testing.T) {
	for _, target := range []api.LimitsTarget{{System: true}, {Resource: "gpt-4"}, {Entity: "api-key-123"}, {Entity: "api-key-123", Resource: "gpt-4"}} {
		for operation, f := range map[string]fault.Fault{
			"UpdateItem":   {Kind: fault.ReplyLost},   // the outcome is unknown, and cannot be asked
			"PutItem":      {Kind: fault.Unreachable}, // of a bucket that is not there yet
			"BatchGetItem": fault.InternalError(),     // when the settings are read again
			"GetItem":      {Kind: fault.ReplyHangs},  // asked for the outcome
		} {
			t.Run(fmt.Sprintf("%+v/%s", target, operation), func(t *testing.T) {
				t.Parallel()
				w := newWorld(t)
				w.setLimits(t, api.LimitsTarget{System: true}, perDay("rpm", 10))
				_, err := w.limits.SetPolicy(t.Context(), w.ns, api.Principal{User: "ops"}, api.PolicySetRequest{LimitsTarget: target, OnUnavailable: api.PolicyAllow})
				require.NoError(t, err)
				n := w.node(t, Tuning{StoreTimeout: maxStoreCall})
				nc := w.nats.Connect(t)
				require.True(t, acquire(t, nc, one).Allowed)
				switch operation {
				case "PutItem":
					w.remove(t, "api-key-123", "gpt-4")
				case "BatchGetItem":
					n.router.member(w.item(t, "api-key-123", "gpt-4").Key).writer.settings.outdated.Store(true)
				}
				always(n, f, operation, "GetItem")
				if operation == "GetItem" {
					always(n, f, operation, "UpdateItem")
				}
				reply := acquire(t, nc, one)
				require.True(t, reply.Allowed)
				require.True(t, reply.Degraded)
				blocked := refused(t, nc, api.VerbAcquire, strings.Replace(one, `}}`, `},"on_unavailable":"block"}`, 1), time.Second)
				require.Equal(t, api.CodeUnavailable, blocked.Code)
				unknown := refused(t, nc, api.VerbAcquire, strings.Replace(one, "{\"rpm\":1}", "{\"rpm\":-1}", 1), patience)
				require.Equal(t, api.CodeInvalidAmount, unknown.Code, "what is wrong with a request never fails open")
			})
		}
	}
}

// While the store hangs, one bucket's requests do not fill the node's queue, however
// many shards it has.
func TestOneBucketHoldsAQuarterOfTheQueue(t *testing.T) {
	for _, count := range []int{1, 4} {
		t.Run(fmt.Sprint(count), func(t *testing.T) { oneBucketHoldsAQuarterOfTheQueue(t, count) })
	}
}

func oneBucketHoldsAQuarterOfTheQueue(t *testing.T, shards int) {
	t.Helper()
	w := newWorld(t)
	rpmPerDay(t, w, 1000)
	n := w.node(t, Tuning{Queue: 40})
	nc := w.nats.Connect(t)
	acquire(t, nc, one)
	w.divide(t, "api-key-123", shards)
	acquire(t, nc, one) // which learns of them
	acquire(t, nc, strings.Replace(one, "api-key-123", "other", 1))
	n.router.member(w.bucketKey("api-key-123")).bucket().forgetTree() // its shards were seen long ago
	release := make(chan struct{})
	n.faults.Match(func(_ string, body []byte) fault.Fault {
		if strings.Contains(string(body), "api-key-123") {
			<-release
		}
		return fault.Fault{}
	})
	var shed, answered atomic.Int64
	var wg sync.WaitGroup
	for range 30 {
		wg.Go(func() {
			m := send(t, nc, api.VerbAcquire, one, patience)
			if m.Header.Get(api.HeaderErrorCode) == "503" {
				require.Equal(t, api.CodeOverloaded, api.DecodeError(m.Data).Code)
				if shed.Add(1) == 20 {
					close(release)
				}
				return
			}
			answered.Add(1)
		})
	}
	wg.Wait()
	require.EqualValues(t, 20, shed.Load())
	require.EqualValues(t, 10, answered.Load())
	n.faults.Match(nil)
	require.True(t, acquire(t, nc, strings.Replace(one, "api-key-123", "other", 1)).Allowed)
}

// Forgetting a bucket is always safe.
func TestForgottenBucketsAreLearnedAgain(t *testing.T) {
	w := newWorld(t)
	w.setLimits(t, api.LimitsTarget{System: true}, perDay("rpm", 3))
	n := w.node(t, Tuning{Remember: 4 * stateBytes})
	nc := w.nats.Connect(t)
	for round := range 5 {
		for e := range 12 {
			reply := acquire(t, nc, fmt.Sprintf(`{"entity":"e%d","resource":"gpt-4","consume":{"rpm":1}}`, e))
			require.Equal(t, round < 3, reply.Allowed, "entity %d in round %d", e, round)
		}
	}
	shards, bytes := n.router.members.counts()
	require.Less(t, shards, 12)
	require.LessOrEqual(t, bytes, int64(4*stateBytes))
}

// No reply is lost while nodes are replaced one after another.
func TestRollingRestartLosesNoReply(t *testing.T) {
	w := newWorld(t)
	rpmPerDay(t, w, 1_000_000)
	n := w.node(t, Tuning{})
	stop := make(chan struct{})
	var wg sync.WaitGroup
	var admitted atomic.Int64
	for range 8 {
		nc := w.nats.Connect(t)
		wg.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				if acquire(t, nc, one).Allowed {
					admitted.Add(1)
				}
			}
		})
	}
	for range 5 {
		next := w.node(t, Tuning{})
		require.NoError(t, n.stop())
		n = next
	}
	close(stop)
	wg.Wait()
	require.Equal(t, admitted.Load(), w.item(t, "api-key-123", "gpt-4").Acquires)
}

// A sync that keeps failing is tried again at a pace.
func TestAFailingSyncIsPaced(t *testing.T) {
	w := newWorld(t)
	rpmPerDay(t, w, 10)
	n := w.node(t, Tuning{})
	nc := w.nats.Connect(t)
	acquire(t, nc, one)
	rpmPerDay(t, w, 20)
	n.router.member(keys.Bucket{Namespace: w.ns, Entity: "api-key-123", Resource: "gpt-4"}).writer.settings.outdated.Store(true)
	always(n, fault.InternalError(), "UpdateItem")
	before := n.faults.Total().Calls
	require.Equal(t, api.CodeUnavailable, refused(t, nc, api.VerbAcquire, one, 500*time.Millisecond).Code)
	require.Less(t, n.faults.Total().Calls-before, int64(40))
	n.faults.Match(nil)
	require.EqualValues(t, 20, acquire(t, nc, one).Limits[0].Capacity)
}

// A node that stops while NATS is away ends in order: nobody can be told, and
// nothing more comes.
func TestANodeStopsWithoutNATS(t *testing.T) {
	w := newWorld(t)
	n := w.node(t, Tuning{DrainTimeout: time.Hour})
	w.nats.Stop()
	require.NoError(t, n.stop())
}
