package admission

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"sync/atomic"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/stretchr/testify/require"

	"github.com/tidegate/tidegate/engine/fault"
	"github.com/tidegate/tidegate/internal/table"
	"github.com/tidegate/tidegate/pkg/api"
	"github.com/tidegate/tidegate/pkg/bucket"
)

// drain empties a bucket behind the nodes' backs.
func (w *world) drain(t *testing.T, entity string) {
	t.Helper()
	b := w.item(t, entity, "gpt-4")
	now := bucket.At(time.Now())
	for i := range b.Limits {
		b.Limits[i].Drawn = b.Limits[i].Refilled(now)
	}
	_, err := w.client.PutItem(t.Context(), &dynamodb.PutItemInput{TableName: &w.table, Item: table.EncodeBucket(b)})
	require.NoError(t, err)
}

// writeOf strikes the nth write of an entity's bucket from now on, and no other.
func writeOf(n *node, entity string, nth int32, f fault.Fault) {
	var seen atomic.Int32
	n.faults.Match(func(op string, body []byte) fault.Fault {
		if op == "UpdateItem" && bytes.Contains(body, []byte("/BUCKET#"+entity+"#")) && seen.Add(1) == nth {
			return f
		}
		return fault.Fault{}
	})
}

func (w *world) spent(t *testing.T, entity string) (tokens, acquires int64) {
	t.Helper()
	b := w.item(t, entity, "gpt-4")
	return b.Find("rpm").Consumed / 1000, b.Acquires
}

// A refusal gives the other level back what it had spent, as if nothing had
// been; what cannot be said to have been given back stays spent.
func TestTakeBacksThroughEveryFault(t *testing.T) {
	for name, c := range map[string]struct {
		fault fault.Fault
		spent int64 // of the child, beside the acquire that made the buckets
	}{
		"applied":       {fault.Fault{}, 0},
		"throttled":     {fault.Throttling(), 0},
		"no connection": {fault.Fault{Kind: fault.Unreachable}, 0},
		"failed before": {fault.InternalError(), 1}, // of unknown outcome
		"failed after":  {fault.InternalErrorAfter(), 0},
		"reply lost":    {fault.Fault{Kind: fault.ReplyLost}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := family(t)
			n := w.node(t, Tuning{})
			nc := w.nats.Connect(t)
			require.True(t, acquire(t, nc, oneRPM("child")).Allowed)
			w.drain(t, "parent")
			writeOf(n, "child", 2, c.fault) // after the spend: the take-back
			reply := acquire(t, nc, oneRPM("child"))
			require.False(t, reply.Allowed)
			require.Equal(t, 99-c.spent, balance(t, reply.Limits, "child", "rpm").Available)
			require.True(t, balance(t, reply.Limits, "parent", "rpm").Exceeded)
			require.Equal(t, reply.RetryAfterMs, balance(t, reply.Limits, "parent", "rpm").RetryAfterMs)
			tokens, acquires := w.spent(t, "child")
			require.Equal(t, 1+c.spent, tokens)
			require.Equal(t, 1+c.spent, acquires)
			tokens, acquires = w.spent(t, "parent")
			require.EqualValues(t, 1, tokens)
			require.EqualValues(t, 1, acquires)
		})
	}
}

// A parent's write goes wrong in every way: the acquire is admitted with both
// levels spent, or it is not, and then the child has its tokens back, and the
// parent is spent from at most once.
func TestASpendOfAParentThroughEveryFault(t *testing.T) {
	for name, c := range map[string]struct {
		fault         fault.Fault
		admitted      bool
		child, parent int64 // beside the acquire that made the buckets
	}{
		"applied":       {fault.Fault{}, true, 1, 1},
		"throttled":     {fault.Throttling(), true, 1, 1},
		"no connection": {fault.Fault{Kind: fault.Unreachable}, false, 0, 0},
		"failed before": {fault.InternalError(), false, 0, 0},
		"failed after":  {fault.InternalErrorAfter(), true, 1, 1},
		"reply lost":    {fault.Fault{Kind: fault.ReplyLost}, true, 1, 1},
		"arrives late":  {fault.Fault{Kind: fault.Late, Delay: 1}, false, 0, 1},
	} {
		for _, policy := range []api.Policy{api.PolicyBlock, api.PolicyAllow} {
			t.Run(name+"/"+string(policy), func(t *testing.T) {
				t.Parallel()
				w := family(t)
				_, err := w.limits.Set(t.Context(), w.ns, api.Principal{}, api.LimitsSetRequest{
					LimitsTarget: own("child"), Limits: []api.Limit{perDay("rpm", 100)}, OnUnavailable: policy,
				})
				require.NoError(t, err)
				n, arrive := w.nodeOfLate(t)
				nc := w.nats.Connect(t)
				require.True(t, acquire(t, nc, oneRPM("child")).Allowed)
				writeOf(n, "parent", 1, c.fault)
				m := send(t, nc, api.VerbAcquire, oneRPM("child"), patience)
				arrive()
				n.faults.Wait()
				switch {
				case c.admitted || policy == api.PolicyAllow:
					var reply api.AcquireReply
					require.NoError(t, json.Unmarshal(m.Data, &reply), string(m.Data))
					require.True(t, reply.Allowed)
					require.Equal(t, !c.admitted, reply.Degraded, "the child's policy holds")
				default:
					require.Equal(t, api.CodeUnavailable, api.DecodeError(m.Data).Code, string(m.Data))
				}
				child, acquires := w.spent(t, "child")
				require.Equal(t, 1+c.child, child)
				require.Equal(t, 1+c.child, acquires)
				parent, _ := w.spent(t, "parent")
				require.Equal(t, 1+c.parent, parent)
			})
		}
	}
}

// A parent whose store hangs is answered for in time, and the child is given
// back what it spent before the node is gone.
func TestAHangingParentIsAnsweredInTime(t *testing.T) {
	w := family(t)
	n := w.node(t, Tuning{StoreTimeout: maxStoreCall})
	nc := w.nats.Connect(t)
	require.True(t, acquire(t, nc, oneRPM("child")).Allowed)
	writeOf(n, "parent", 1, fault.Fault{Kind: fault.ReplyHangs})
	e := refused(t, nc, api.VerbAcquire, oneRPM("child"), maxStoreCall/2)
	require.Equal(t, api.CodeUnavailable, e.Code)
	require.NoError(t, n.stop())
	tokens, acquires := w.spent(t, "child")
	require.EqualValues(t, 1, tokens, "what was taken back is back when Run returns")
	require.EqualValues(t, 1, acquires)
}

// A throttled take-back keeps nobody waiting beyond its time, and is finished
// before Run returns.
func TestTakeBacksAreFinishedBeforeTheNodeStops(t *testing.T) {
	w := family(t)
	n := w.node(t, Tuning{})
	nc := w.nats.Connect(t)
	require.True(t, acquire(t, nc, oneRPM("child")).Allowed)
	w.drain(t, "parent")
	const throttled = 10 // writes, which takes about half a second
	var writes atomic.Int32
	n.faults.Match(func(op string, body []byte) fault.Fault {
		if op == "UpdateItem" && bytes.Contains(body, []byte("/BUCKET#child#")) {
			if nth := writes.Add(1); nth > 1 && nth < throttled {
				return fault.Throttling()
			}
		}
		return fault.Fault{}
	})
	m := send(t, nc, api.VerbAcquire, oneRPM("child"), 250*time.Millisecond)
	require.NoError(t, n.stop())
	tokens, acquires := w.spent(t, "child")
	require.EqualValues(t, 1, tokens, string(m.Data))
	require.EqualValues(t, 1, acquires)
	require.GreaterOrEqual(t, writes.Load(), int32(throttled))
}

// One child has its share of the queue, and so has a parent: what is shed has
// spent nothing.
func TestAShedParentSpendsNothing(t *testing.T) {
	w := family(t)
	release := make(chan struct{})
	n := w.nodeWith(t, Tuning{Queue: 16, StoreTimeout: maxStoreCall}, fault.Options{ // 4 for a bucket
		Sleep: func(context.Context, time.Duration) error { <-release; return nil },
	})
	nc := w.nats.Connect(t)
	for i := range 8 {
		w.under(t, fmt.Sprintf("child-%d", i), "parent")
		w.setLimits(t, own(fmt.Sprintf("child-%d", i)), perDay("rpm", 100))
	}
	w.setLimits(t, own("parent"), perDay("rpm", 1000))
	for i := range 8 {
		require.True(t, acquire(t, nc, oneRPM(fmt.Sprintf("child-%d", i))).Allowed)
	}
	n.faults.Match(func(op string, body []byte) fault.Fault {
		if op == "UpdateItem" && bytes.Contains(body, []byte("/BUCKET#parent#")) {
			return fault.Fault{Delay: time.Millisecond}
		}
		return fault.Fault{}
	})
	replies := make(chan bool, 8)
	for i := range 8 {
		go func() {
			m := natsMsg(api.VerbAcquire, oneRPM(fmt.Sprintf("child-%d", i)))
			reply, err := nc.RequestMsg(m, patience)
			shed := err == nil && reply.Header.Get(api.HeaderErrorCode) == fmt.Sprint(http.StatusServiceUnavailable) &&
				api.DecodeError(reply.Data).Code == api.CodeOverloaded
			if shed {
				replies <- false
				return
			}
			replies <- true
		}()
	}
	for range 4 {
		require.False(t, <-replies, "above a quarter of the queue")
	}
	close(release)
	for range 4 {
		require.True(t, <-replies)
	}
	require.NoError(t, n.stop())
	total := int64(0)
	for i := range 8 {
		tokens, _ := w.spent(t, fmt.Sprintf("child-%d", i))
		total += tokens
	}
	require.EqualValues(t, 12, total)
	parent, _ := w.spent(t, "parent")
	require.EqualValues(t, 12, parent)
}
