package config_test

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/stretchr/testify/require"

	"github.com/tidegate/tidegate/engine/fault"
	"github.com/tidegate/tidegate/internal/table"
	"github.com/tidegate/tidegate/pkg/api"
	"github.com/tidegate/tidegate/pkg/keys"
)

// pages reads a whole list, n levels a page at most.
func (f *limitFixture) pages(where api.LimitsTarget, n int64) []api.LimitsTarget {
	f.t.Helper()
	var found []api.LimitsTarget
	req := api.LimitsListRequest{LimitsTarget: where, Limit: n}
	for {
		reply, err := f.store.List(f.t.Context(), ns, req)
		require.NoError(f.t, err)
		require.NotNil(f.t, reply.Levels, "an array on the wire")
		if n > 0 {
			require.LessOrEqual(f.t, len(reply.Levels), int(n))
		}
		for _, level := range reply.Levels {
			require.Equal(f.t, f.get(level.LimitsTarget), level)
			found = append(found, level.LimitsTarget)
		}
		if reply.Cursor == "" {
			return found
		}
		req.Cursor = reply.Cursor
	}
}

func TestListFindsEachLevelOnce(t *testing.T) {
	f := newLimitFixture(t)
	all := []api.LimitsTarget{{System: true}}
	for i := range 12 {
		all = append(all, api.LimitsTarget{Resource: fmt.Sprintf("r%d", i)}, api.LimitsTarget{Entity: fmt.Sprintf("e%d", i)})
		for j := range 3 {
			all = append(all, api.LimitsTarget{Entity: fmt.Sprintf("e%d", i), Resource: fmt.Sprintf("r%d", j)})
		}
	}
	for _, where := range all {
		f.set(where, limit("rpm", 5), limit("tpm", 7))
	}
	// What no list may show.
	f.setPolicy(api.LimitsTarget{Entity: "e0", Resource: "r9"}, api.PolicyAllow)
	f.setPolicy(api.LimitsTarget{Entity: "policy-alone"}, api.PolicyAllow)
	_, err := f.other.Set(t.Context(), otherNs, by(), setTo(api.LimitsTarget{Entity: "e0"}, limit("no", 1)))
	require.NoError(t, err)

	only := func(keep func(api.LimitsTarget) bool) []api.LimitsTarget {
		return slices.DeleteFunc(slices.Clone(all), func(t api.LimitsTarget) bool { return !keep(t) })
	}
	for name, c := range map[string]struct {
		where api.LimitsTarget
		want  []api.LimitsTarget
	}{
		"all":                 {api.LimitsTarget{}, all},
		"system":              {api.LimitsTarget{System: true}, all[:1]},
		"an entity's":         {api.LimitsTarget{Entity: "e1"}, only(func(t api.LimitsTarget) bool { return t.Entity == "e1" })},
		"an entity without":   {api.LimitsTarget{Entity: "nobody"}, nil},
		"a resource's":        {api.LimitsTarget{Resource: "r1"}, only(func(t api.LimitsTarget) bool { return t.Resource == "r1" })},
		"one":                 {api.LimitsTarget{Entity: "e1", Resource: "r1"}, []api.LimitsTarget{{Entity: "e1", Resource: "r1"}}},
		"one that is not set": {api.LimitsTarget{Entity: "e1", Resource: "r11"}, nil},
		"one with a policy":   {api.LimitsTarget{Entity: "e0", Resource: "r9"}, nil},
	} {
		for _, n := range []int64{0, 1, 3, 1000} {
			t.Run(fmt.Sprintf("%s by %d", name, n), func(t *testing.T) {
				f.t = t
				require.ElementsMatch(t, c.want, f.pages(c.where, n))
			})
		}
	}
}

// Items of later releases may be large: a query of DynamoDB ends after 1 MB.
func TestListGoesOnBehindOneMegabyte(t *testing.T) {
	f := newLimitFixture(t)
	var want []api.LimitsTarget
	for i := range 8 {
		where := api.LimitsTarget{Entity: "alice", Resource: fmt.Sprintf("r%d", i)}
		f.set(where, limit("rpm", 5))
		f.attribute(keys.EntityConfig{Namespace: ns, Entity: "alice", Resource: where.Resource}, "large", text(strings.Repeat("x", 300<<10)))
		want = append(want, where)
	}
	require.ElementsMatch(t, want, f.pages(api.LimitsTarget{Entity: "alice"}, 0))
	require.ElementsMatch(t, want, f.pages(api.LimitsTarget{}, 0))
}

// A page must fit a NATS message of 1 MB, however many levels are asked for.
func TestAPageOfTheLargestLevelsFitsAMessage(t *testing.T) {
	f := newLimitFixture(t)
	var ls []api.Limit
	for i := range api.MaxLimits {
		ls = append(ls, api.Limit{Name: fmt.Sprintf("l%063d", i), Capacity: api.MaxAmount, RefillAmount: api.MaxRate * 86400, RefillPeriodSeconds: api.MaxPeriodSeconds})
	}
	const levels = 450
	for i := range levels {
		f.set(api.LimitsTarget{Entity: "e", Resource: fmt.Sprintf("r%060d", i)}, ls...)
	}
	req := api.LimitsListRequest{LimitsTarget: api.LimitsTarget{Entity: "e"}, Limit: api.MaxPage}
	found := 0
	for {
		reply, err := f.store.List(t.Context(), ns, req)
		require.NoError(t, err)
		encoded, err := json.Marshal(reply)
		require.NoError(t, err)
		require.Less(t, len(encoded), 1<<20)
		found += len(reply.Levels)
		if req.Cursor = reply.Cursor; reply.Cursor == "" {
			break
		}
	}
	require.Equal(t, levels, found)
}

// Rows of an index follow the table: one may lead to an item that is gone.
func TestListPassesOverWhatWasDeletedMeanwhile(t *testing.T) {
	f := newLimitFixture(t)
	gone := api.LimitsTarget{Entity: "alice", Resource: "gpt-4"}
	f.set(gone, limit("rpm", 5))
	f.set(api.LimitsTarget{Entity: "bob", Resource: "gpt-4"}, limit("rpm", 5))
	f.Before("BatchGetItem", func() { require.NoError(t, f.other.Delete(t.Context(), ns, by(), deleting(gone))) })
	require.Equal(t, []api.LimitsTarget{{Entity: "bob", Resource: "gpt-4"}}, f.pages(api.LimitsTarget{Resource: "gpt-4"}, 0))
}

// Many rows that lead to nothing end a page early, with a cursor.
func TestAPageHasBoundedWork(t *testing.T) {
	f := newLimitFixture(t)
	want := []api.LimitsTarget{}
	for i := range 70 {
		where := api.LimitsTarget{Entity: "alice", Resource: fmt.Sprintf("r%02d", i)}
		if i < 66 {
			f.setPolicy(where, api.PolicyAllow)
			continue
		}
		f.set(where, limit("rpm", 5))
		want = append(want, where)
	}
	reply, err := f.store.List(t.Context(), ns, api.LimitsListRequest{LimitsTarget: api.LimitsTarget{Entity: "alice"}, Limit: 1})
	require.NoError(t, err)
	require.Empty(t, reply.Levels)
	require.NotEmpty(t, reply.Cursor)
	require.Equal(t, want, f.pages(api.LimitsTarget{Entity: "alice"}, 1))
}

func TestForgedCursorsAreRefused(t *testing.T) {
	cursorOf := func(json string) string { return base64.RawURLEncoding.EncodeToString([]byte(json)) }
	foreign := keys.EntityConfig{Namespace: otherNs, Entity: "alice", Resource: "gpt-4"}.Key()
	for name, cursor := range map[string]string{
		"no base64":          "!",
		"no JSON":            cursorOf("x"),
		"no such step":       cursorOf(`{"s":33}`),
		"before the first":   cursorOf(`{"s":-1}`),
		"no key":             cursorOf(`{"s":1,"p":"x","k":"y"}`),
		"behind an item":     cursorOf(`{"s":0,"p":"AAAAAAAAAAA/SYSTEM#","k":"#CONFIG"}`),
		"another namespace":  cursorOf(fmt.Sprintf(`{"s":1,"p":%q,"k":%q}`, foreign.PK, foreign.SK)),
		"another's registry": cursorOf(`{"s":1,"p":"_/SYSTEM#","k":"#NAMESPACE#default"}`),
	} {
		t.Run(name, func(t *testing.T) {
			f := newLimitFixture(t)
			_, err := f.store.List(t.Context(), ns, api.LimitsListRequest{Cursor: cursor})
			require.Equal(t, "cursor", requireCode(t, api.CodeInvalidCursor, err).Field)
			require.Zero(t, f.Calls(""))
		})
	}
}

func TestListRefusesBadRequests(t *testing.T) {
	f := newLimitFixture(t)
	_, err := f.store.List(t.Context(), ns, api.LimitsListRequest{LimitsTarget: api.LimitsTarget{Entity: "a\tb"}})
	requireCode(t, api.CodeInvalidEntity, err)
	for _, n := range []int64{-1, api.MaxPage + 1} {
		_, err = f.store.List(t.Context(), ns, api.LimitsListRequest{Limit: n})
		requireCode(t, api.CodeInvalidAmount, err)
	}
	require.Zero(t, f.Calls(""))
}

func TestListTellsOfOutagesAndDamage(t *testing.T) {
	f := newLimitFixture(t)
	f.set(api.LimitsTarget{Resource: "gpt-4"}, limit("rpm", 5))
	for _, operation := range []string{"GetItem", "Query", "BatchGetItem"} {
		f.Fail(operation, fault.InternalError())
		_, err := f.store.List(t.Context(), ns, api.LimitsListRequest{})
		require.Error(t, err, operation)
	}
	f.attribute(keys.ResourceConfig{Namespace: ns, Resource: "gpt-4"}, "l_rpm_cp", text("many"))
	_, err := f.store.List(t.Context(), ns, api.LimitsListRequest{})
	require.ErrorIs(t, err, table.ErrDamaged)
}

// Everybody has limits of their own: no list loses one, whichever index it reads.
func TestListsPageThroughTenThousandLevels(t *testing.T) {
	const levels = 10_000
	f := newLimitFixture(t)
	want := make([]api.LimitsTarget, levels)
	for i := range want {
		want[i] = api.LimitsTarget{Entity: fmt.Sprintf("e%05d", i), Resource: "gpt-4"}
		form := table.SetConfig{
			Key:    keys.EntityConfig{Namespace: ns, Entity: want[i].Entity, Resource: want[i].Resource},
			Limits: []api.Limit{limit("rpm", 5)}, Nonce: "n",
		}
		u := form.Write(f.Table).Update
		_, err := f.Direct.UpdateItem(t.Context(), &dynamodb.UpdateItemInput{
			TableName: u.TableName, Key: u.Key, UpdateExpression: u.UpdateExpression, ConditionExpression: u.ConditionExpression,
			ExpressionAttributeNames: u.ExpressionAttributeNames, ExpressionAttributeValues: u.ExpressionAttributeValues,
		})
		require.NoError(t, err)
	}
	byEntity := func(a, b api.LimitsTarget) int { return strings.Compare(a.Entity, b.Entity) }
	for _, target := range []api.LimitsTarget{{}, {Resource: "gpt-4"}} {
		var got []api.LimitsTarget
		for req := (api.LimitsListRequest{LimitsTarget: target, Limit: api.MaxPage}); ; {
			reply, err := f.store.List(t.Context(), ns, req)
			require.NoError(t, err)
			for _, level := range reply.Levels {
				got = append(got, level.LimitsTarget)
			}
			if req.Cursor = reply.Cursor; reply.Cursor == "" {
				break
			}
		}
		slices.SortFunc(got, byEntity)
		require.True(t, slices.Equal(want, got), "%d levels for %+v", len(got), target)
	}
}
