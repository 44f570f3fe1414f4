package admission

import (
	"encoding/json"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/stretchr/testify/require"

	"github.com/tidegate/tidegate/engine/fault"
	"github.com/tidegate/tidegate/internal/table"
	"github.com/tidegate/tidegate/pkg/api"
	"github.com/tidegate/tidegate/pkg/keys"
)

// under stores an entity that cascades to a parent; empty: to none.
func (w *world) under(t *testing.T, entity, parent string) {
	t.Helper()
	item := table.EncodeEntity(&table.Entity{
		Key: keys.Entity{Namespace: w.ns, ID: entity}, Parent: parent, Cascade: parent != "", Version: 1,
	})
	_, err := w.client.PutItem(t.Context(), &dynamodb.PutItemInput{TableName: &w.table, Item: item})
	require.NoError(t, err)
}

// tell broadcasts a change of a config level, as whoever makes it does.
func (w *world) tell(t *testing.T, level api.LimitsTarget) {
	t.Helper()
	body, err := json.Marshal(level)
	require.NoError(t, err)
	nc := w.nats.Connect(t)
	require.NoError(t, nc.Publish(api.ConfigSubject(api.DefaultNamespace), body))
	require.NoError(t, nc.Flush())
}

func own(entity string) api.LimitsTarget { return api.LimitsTarget{Entity: entity, Resource: "gpt-4"} }

// oneRPM is an acquire of one rpm.
func oneRPM(entity string) string { return spending(entity, `{"rpm":1}`) }

func spending(entity, consume string) string {
	return fmt.Sprintf(`{"entity":%q,"resource":"gpt-4","consume":%s}`, entity, consume)
}

// balance is what a status says of a limit of an entity.
func balance(t *testing.T, statuses []api.LimitStatus, entity, limit string) api.LimitStatus {
	t.Helper()
	for _, s := range statuses {
		if s.Entity == entity && s.Name == limit {
			return s
		}
	}
	t.Fatalf("no %s of %s in %v", limit, entity, statuses)
	return api.LimitStatus{}
}

// family is a child of 100 a day under a parent of 5 a day.
func family(t *testing.T) *world {
	t.Helper()
	w := newWorld(t)
	w.under(t, "child", "parent")
	w.setLimits(t, own("child"), perDay("rpm", 100))
	w.setLimits(t, own("parent"), perDay("rpm", 5))
	return w
}

func TestAChildSpendsFromItsParent(t *testing.T) {
	w := family(t)
	n := w.node(t, Tuning{})
	nc := w.nats.Connect(t)
	for i := range int64(5) {
		reply := acquire(t, nc, oneRPM("child"))
		require.True(t, reply.Allowed)
		require.Len(t, reply.Limits, 2)
		require.Equal(t, 99-i, balance(t, reply.Limits, "child", "rpm").Available)
		require.Equal(t, 4-i, balance(t, reply.Limits, "parent", "rpm").Available)
	}
	before := n.faults.Counts()
	for range 20 {
		reply := acquire(t, nc, oneRPM("child"))
		require.False(t, reply.Allowed)
		child, parent := balance(t, reply.Limits, "child", "rpm"), balance(t, reply.Limits, "parent", "rpm")
		require.Equal(t, api.LimitStatus{Entity: "child", Name: "rpm", Capacity: 100, Requested: 1, Available: 95}, child)
		require.True(t, parent.Exceeded)
		require.Zero(t, parent.Available)
		require.Equal(t, parent.RetryAfterMs, reply.RetryAfterMs)
		require.Positive(t, reply.RetryAfterMs)
	}
	after := n.faults.Counts()
	require.Equal(t, before["UpdateItem"].Calls, after["UpdateItem"].Calls, "a denial from known states costs no write at any level")
	require.Equal(t, before["PutItem"].Calls, after["PutItem"].Calls)
	require.EqualValues(t, 5, w.item(t, "child", "gpt-4").Acquires)
	require.EqualValues(t, 5, w.item(t, "parent", "gpt-4").Acquires)
}

// A node that knows nothing asks the parent first, so that the child is not
// spent from in vain; its answer still tells how the child stands.
func TestADenialOfANodeThatKnowsNothing(t *testing.T) {
	w := family(t)
	first := w.node(t, Tuning{})
	nc := w.nats.Connect(t)
	for range 5 {
		require.True(t, acquire(t, nc, oneRPM("child")).Allowed)
	}
	require.NoError(t, first.stop())
	n := w.node(t, Tuning{})
	before := n.faults.Counts()
	reply := acquire(t, nc, oneRPM("child"))
	require.False(t, reply.Allowed)
	require.EqualValues(t, 95, balance(t, reply.Limits, "child", "rpm").Available)
	require.True(t, balance(t, reply.Limits, "parent", "rpm").Exceeded)
	counts := n.faults.Counts()
	require.EqualValues(t, 5, w.item(t, "child", "gpt-4").Acquires)
	require.Zero(t, counts["UpdateItem"].Calls)
	require.LessOrEqual(t, int(counts["GetItem"].Calls-before["GetItem"].Calls), 3, "the namespace and one read of each bucket")
}

// Whatever many children of one parent do at the same time, the parent admits
// its capacity, and nobody's refusal costs its child anything. They share the
// parent's writes.
func TestManyChildrenOfOneParent(t *testing.T) {
	const children, capacity = 64, 40
	w := newWorld(t)
	w.setLimits(t, api.LimitsTarget{Resource: "gpt-4"}, perDay("rpm", 100))
	w.setLimits(t, own("parent"), perDay("rpm", capacity))
	for i := range children {
		w.under(t, fmt.Sprintf("child-%d", i), "parent")
	}
	w.nodeWith(t, Tuning{}, fault.Options{Latency: fault.Fixed(5 * time.Millisecond)})
	nc := w.nats.Connect(t)
	var wg sync.WaitGroup
	var admitted atomic.Int64
	for i := range children {
		wg.Go(func() {
			if acquire(t, nc, oneRPM(fmt.Sprintf("child-%d", i))).Allowed {
				admitted.Add(1)
			}
		})
	}
	wg.Wait()
	require.EqualValues(t, capacity, admitted.Load())
	parent := w.item(t, "parent", "gpt-4")
	require.EqualValues(t, capacity*1000, parent.Find("rpm").Consumed)
	require.EqualValues(t, capacity, parent.Acquires)
	var spent, acquires int64
	for i := range children {
		if item := w.item(t, fmt.Sprintf("child-%d", i), "gpt-4"); item != nil {
			spent += item.Find("rpm").Consumed / 1000
			acquires += item.Acquires
		}
	}
	require.EqualValues(t, capacity, spent, "what children lost is what the parent admitted")
	require.EqualValues(t, capacity, acquires)
	t.Logf("the parent was written %d times for %d acquires", parent.WriteUnits, children)
	require.Less(t, parent.WriteUnits, int64(children/2), "children share the parent's writes")
}
