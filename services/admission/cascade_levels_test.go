package admission

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tidegate/tidegate/pkg/api"
)

// lineage stores a → b → c → …, each cascading to the next.
func (w *world) lineage(t *testing.T, entities ...string) {
	t.Helper()
	for i, entity := range entities[:len(entities)-1] {
		w.under(t, entity, entities[i+1])
	}
}

// names are the entities whose limits a reply lists, in order.
func entitiesOf(statuses []api.LimitStatus) []string {
	var entities []string
	for _, s := range statuses {
		if len(entities) == 0 || entities[len(entities)-1] != s.Entity {
			entities = append(entities, s.Entity)
		}
	}
	return entities
}

// An acquire spends from four levels at most, once from each, whatever other
// writers have made of the entities.
func TestLevelsOfACascade(t *testing.T) {
	for name, c := range map[string]struct {
		lineage []string
		levels  []string
	}{
		"alone":             {[]string{"a", ""}, []string{"a"}},
		"two":               {[]string{"a", "b"}, []string{"a", "b"}},
		"four":              {[]string{"a", "b", "c", "d"}, []string{"a", "b", "c", "d"}},
		"five: four count":  {[]string{"a", "b", "c", "d", "e"}, []string{"a", "b", "c", "d"}},
		"its own parent":    {[]string{"a", "a"}, []string{"a"}},
		"a circle of two":   {[]string{"a", "b", "a"}, []string{"a", "b"}},
		"a circle above it": {[]string{"a", "b", "c", "b"}, []string{"a", "b", "c"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.lineage(t, c.lineage...)
			w.setLimits(t, api.LimitsTarget{System: true}, perDay("rpm", 10))
			w.node(t, Tuning{})
			nc := w.nats.Connect(t)
			for i := range int64(2) {
				reply := acquire(t, nc, oneRPM("a"))
				require.True(t, reply.Allowed)
				require.Equal(t, c.levels, entitiesOf(reply.Limits))
				for _, l := range reply.Limits {
					require.Equal(t, 9-i, l.Available)
				}
			}
			status := ask[api.StatusReply](t, nc, api.VerbStatus, oneRPM("a"))
			require.Equal(t, c.levels, entitiesOf(status.Limits))
			require.True(t, *status.Allowed)
			all := ask[api.StatusReply](t, nc, api.VerbStatus, `{"entity":"a"}`)
			require.Equal(t, c.levels, entitiesOf(all.Limits))
			require.Equal(t, "gpt-4", all.Limits[0].Resource)
			reply := acquire(t, nc, spending("a", `{"rpm":11}`))
			require.True(t, reply.Never)
			require.EqualValues(t, -1, reply.RetryAfterMs)
			require.Equal(t, c.levels, entitiesOf(reply.Limits))
		})
	}
}

// Levels may have other limits than each other: a name must be known at one of
// them; one that does not know it spends nothing of it.
func TestLevelsWithOtherLimits(t *testing.T) {
	w := newWorld(t)
	w.lineage(t, "child", "parent", "root")
	w.setLimits(t, own("child"), perDay("rpm", 10))
	w.setLimits(t, own("parent"), perDay("tpm", 1000))
	w.setLimits(t, own("root"), perDay("rpm", 20), perDay("usd", 5))
	w.node(t, Tuning{})
	nc := w.nats.Connect(t)
	reply := acquire(t, nc, spending("child", `{"rpm":1,"tpm":400}`))
	require.Equal(t, []api.LimitStatus{
		{Entity: "child", Name: "rpm", Capacity: 10, Requested: 1, Available: 9},
		{Entity: "parent", Name: "tpm", Capacity: 1000, Requested: 400, Available: 600},
		{Entity: "root", Name: "rpm", Capacity: 20, Requested: 1, Available: 19},
		{Entity: "root", Name: "usd", Capacity: 5, Available: 5},
	}, reply.Limits)

	e := refused(t, nc, api.VerbAcquire, spending("child", `{"rpm":1,"ipm":1}`), patience)
	require.Equal(t, api.CodeUnknownLimit, e.Code)
	require.Equal(t, "consume.ipm", e.Field)
	require.Contains(t, e.Message, "parent has tpm")
	require.Equal(t, api.CodeUnknownLimit, refused(t, nc, api.VerbStatus, spending("child", `{"ipm":1}`), patience).Code)

	// A limit in debt blocks at every level, also a request that spends 0 of it.
	debt := ask[api.AdjustReply](t, nc, api.VerbAdjust, adjustBody(reply.Lease, `{"tpm":700}`))
	require.Equal(t, []string{"child", "parent", "root"}, entitiesOf(debt.Limits), "levels without a part are told of")
	require.EqualValues(t, -100, balance(t, debt.Limits, "parent", "tpm").Available)
	denied := acquire(t, nc, oneRPM("child"))
	require.False(t, denied.Allowed)
	require.True(t, balance(t, denied.Limits, "parent", "tpm").Exceeded)

	// The lease gives back at each level what it has taken there.
	require.True(t, ask[api.ReleaseReply](t, nc, api.VerbRelease, releaseBody(debt.Lease)).Released)
	status := ask[api.StatusReply](t, nc, api.VerbStatus, `{"entity":"child","resource":"gpt-4"}`)
	for _, l := range status.Limits {
		require.Equal(t, l.Capacity, l.Available, l.Entity+" "+l.Name)
	}
}

// A level without any limits does not limit, be it the child; where no level
// has any, it is an error.
func TestLevelsWithoutLimits(t *testing.T) {
	for _, without := range []string{"child", "parent", "root"} {
		t.Run(without, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.lineage(t, "child", "parent", "root")
			w.node(t, Tuning{})
			nc := w.nats.Connect(t)
			require.Equal(t, api.CodeNoLimits, refused(t, nc, api.VerbAcquire, oneRPM("child"), patience).Code)
			require.Equal(t, api.CodeNoLimits, refused(t, nc, api.VerbStatus, oneRPM("child"), patience).Code)
			var limited []string
			for _, entity := range []string{"child", "parent", "root"} {
				if entity != without {
					w.setLimits(t, own(entity), perDay("rpm", 10))
					w.tell(t, own(entity))
					limited = append(limited, entity)
				}
			}
			var reply api.AcquireReply
			require.Eventually(t, func() bool {
				m := send(t, nc, api.VerbAcquire, oneRPM("child"), patience)
				if m.Header.Get(api.HeaderErrorCode) != "" {
					return false
				}
				reply = acquire(t, nc, oneRPM("child"))
				return len(reply.Limits) == 2
			}, patience, 10*time.Millisecond)
			require.True(t, reply.Allowed)
			require.Equal(t, limited, entitiesOf(reply.Limits))
			require.Nil(t, w.item(t, without, "gpt-4"), "nothing is written where nothing limits")
			require.True(t, ask[api.ReleaseReply](t, nc, api.VerbRelease, releaseBody(reply.Lease)).Released)

			w.setLimits(t, own(without), perDay("rpm", 10))
			w.tell(t, own(without))
			require.Eventually(t, func() bool {
				return len(acquire(t, nc, oneRPM("child")).Limits) == 3
			}, patience, 10*time.Millisecond, "limits that a level gets count at once")
		})
	}
}

// A lone acquire of levels the node knows is one write each, all at once, and
// nothing is read.
func TestALoneCascadeIsOneWriteALevel(t *testing.T) {
	w := newWorld(t)
	w.lineage(t, "a", "b", "c")
	w.setLimits(t, api.LimitsTarget{System: true}, perDay("rpm", 100))
	n := w.node(t, Tuning{})
	nc := w.nats.Connect(t)
	require.True(t, acquire(t, nc, oneRPM("a")).Allowed)
	before := n.faults.Counts()
	for range 10 {
		require.True(t, acquire(t, nc, oneRPM("a")).Allowed)
	}
	after := n.faults.Counts()
	require.EqualValues(t, 30, after["UpdateItem"].Calls-before["UpdateItem"].Calls)
	require.InDelta(t, 30, after["UpdateItem"].WriteUnits-before["UpdateItem"].WriteUnits, 0)
	for _, read := range []string{"GetItem", "BatchGetItem", "Query"} {
		require.Equal(t, before[read].Calls, after[read].Calls, read)
	}
}

// A parent that an entity gets, changes or loses while its bucket lives is
// obeyed as soon as its invalidation is there.
func TestAParentThatChanges(t *testing.T) {
	w := newWorld(t)
	w.setLimits(t, api.LimitsTarget{System: true}, perDay("rpm", 100))
	w.node(t, Tuning{})
	w.node(t, Tuning{})
	nc := w.nats.Connect(t)
	for range 4 {
		require.Equal(t, []string{"child"}, entitiesOf(acquire(t, nc, oneRPM("child")).Limits))
	}
	for _, parent := range []string{"first", "second", "", "first"} {
		w.under(t, "child", parent)
		w.tell(t, api.LimitsTarget{Entity: "child"})
		want := []string{"child"}
		if parent != "" {
			want = append(want, parent)
		}
		inARow := 0
		require.Eventually(t, func() bool { // both nodes answer
			if got := entitiesOf(acquire(t, nc, oneRPM("child")).Limits); fmt.Sprint(got) != fmt.Sprint(want) {
				inARow = 0
				return false
			}
			inARow++
			return inARow == 12
		}, patience, 2*time.Millisecond)
		item := w.item(t, "child", "gpt-4")
		require.Equal(t, parent, item.Parent)
		require.Equal(t, parent != "", item.Cascade)
	}
}

// A parent's bucket that expired is full, as a child's is.
func TestAParentBucketThatIsGone(t *testing.T) {
	w := family(t)
	w.node(t, Tuning{})
	nc := w.nats.Connect(t)
	first := acquire(t, nc, oneRPM("child"))
	w.remove(t, "parent", "gpt-4")
	second := acquire(t, nc, oneRPM("child"))
	require.EqualValues(t, 4, balance(t, second.Limits, "parent", "rpm").Available)
	require.EqualValues(t, 98, balance(t, second.Limits, "child", "rpm").Available)
	w.remove(t, "parent", "gpt-4")
	require.True(t, ask[api.ReleaseReply](t, nc, api.VerbRelease, releaseBody(first.Lease)).Released)
	require.True(t, ask[api.ReleaseReply](t, nc, api.VerbRelease, releaseBody(second.Lease)).Released)
	require.Nil(t, w.item(t, "parent", "gpt-4"), "a credit to a bucket that is gone is dropped")
	child, _ := w.spent(t, "child")
	require.Zero(t, child)
}
