package admission

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tidegate/tidegate/internal/config"
	"github.com/tidegate/tidegate/pkg/api"
	"github.com/tidegate/tidegate/pkg/keys"
)

// bringing is an acquire of one rpm under limits of its own.
func bringing(t *testing.T, entity string, brought ...api.Limit) string {
	t.Helper()
	body, err := json.Marshal(api.AcquireRequest{
		Entity: entity, Resource: "gpt-4", Consume: api.Amounts{{Name: "rpm", Tokens: 1}}, Limits: brought,
	})
	require.NoError(t, err)
	return string(body)
}

func overrideName(brought ...api.Limit) string {
	_, fingerprint := config.Override(brought)
	return keys.OverrideResource("gpt-4", fingerprint)
}

// Limits that a request brings have a bucket of their own: stored limits, and
// other brought ones, are neither spent nor changed.
func TestBroughtLimitsHaveABucketOfTheirOwn(t *testing.T) {
	w := newWorld(t)
	w.setLimits(t, api.LimitsTarget{Resource: "gpt-4"}, perDay("rpm", 10))
	n := w.node(t, Tuning{})
	nc := w.nats.Connect(t)
	require.True(t, acquire(t, nc, oneRPM("e")).Allowed)
	two, three := perDay("rpm", 2), perDay("rpm", 3)
	for i := range int64(2) {
		reply := ask[api.AcquireReply](t, nc, api.VerbAcquireOverride, bringing(t, "e", two))
		require.True(t, reply.Allowed)
		require.Equal(t, []api.LimitStatus{{Entity: "e", Name: "rpm", Capacity: 2, Requested: 1, Available: 1 - i}}, reply.Limits)
	}
	denied := ask[api.AcquireReply](t, nc, api.VerbAcquireOverride, bringing(t, "e", two))
	require.False(t, denied.Allowed)
	require.Positive(t, denied.RetryAfterMs)
	require.True(t, ask[api.AcquireReply](t, nc, api.VerbAcquireOverride, bringing(t, "e", three)).Allowed)
	require.EqualValues(t, 1000, w.item(t, "e", "gpt-4").Find("rpm").Consumed)
	require.EqualValues(t, 2000, w.item(t, "e", overrideName(two)).Find("rpm").Consumed)
	require.EqualValues(t, 1000, w.item(t, "e", overrideName(three)).Find("rpm").Consumed)
	level, err := w.limits.Get(t.Context(), w.ns, api.LimitsTarget{Resource: "gpt-4"})
	require.NoError(t, err)
	require.Equal(t, []api.Limit{perDay("rpm", 10)}, level.Limits)

	before := n.faults.Counts()
	require.True(t, ask[api.AcquireReply](t, nc, api.VerbAcquireOverride, bringing(t, "e", three)).Allowed)
	after := n.faults.Counts()
	require.Equal(t, before["UpdateItem"].Calls+1, after["UpdateItem"].Calls, "it is one write, as any other acquire")
	require.Equal(t, before["GetItem"].Calls, after["GetItem"].Calls)

	status := ask[api.StatusReply](t, nc, api.VerbStatus, `{"entity":"e"}`)
	require.Len(t, status.Limits, 3)
	require.Contains(t, status.Limits, api.LimitStatus{Entity: "e", Resource: keys.ResourceText(overrideName(two)), Name: "rpm", Capacity: 2})
}

// Nothing has to be stored for limits that a request brings, and a lease is
// settled in their bucket, by any node, also when the bucket is gone.
func TestLeasesOfBroughtLimits(t *testing.T) {
	w := newWorld(t)
	first := w.node(t, Tuning{})
	nc := w.nats.Connect(t)
	ten := perDay("rpm", 10)
	lease := ask[api.AcquireReply](t, nc, api.VerbAcquireOverride, bringing(t, "e", ten)).Lease
	w.node(t, Tuning{})
	require.NoError(t, first.stop())
	more := ask[api.AdjustReply](t, nc, api.VerbAdjust, adjustBody(lease, `{"rpm":4}`))
	require.Equal(t, []api.LimitStatus{{Entity: "e", Name: "rpm", Capacity: 10, Requested: 4, Available: 5}}, more.Limits)

	w.remove(t, "e", overrideName(ten))
	debt := ask[api.AdjustReply](t, nc, api.VerbAdjust, adjustBody(more.Lease, `{"rpm":3}`))
	require.EqualValues(t, 7, debt.Limits[0].Available, "a debit makes the bucket anew, under the limits that were brought")
	require.True(t, ask[api.ReleaseReply](t, nc, api.VerbRelease, releaseBody(debt.Lease)).Released)
	require.EqualValues(t, 10, ask[api.StatusReply](t, nc, api.VerbStatus, `{"entity":"e"}`).Limits[0].Available)
}

// Brought limits take the place of the entity's own; its ancestors keep theirs.
func TestBroughtLimitsUnderAParent(t *testing.T) {
	w := family(t)
	w.node(t, Tuning{})
	nc := w.nats.Connect(t)
	for range 5 {
		reply := ask[api.AcquireReply](t, nc, api.VerbAcquireOverride, bringing(t, "child", perDay("rpm", 1000)))
		require.True(t, reply.Allowed)
		require.Len(t, reply.Limits, 2)
		require.EqualValues(t, 1000, reply.Limits[0].Capacity)
	}
	denied := ask[api.AcquireReply](t, nc, api.VerbAcquireOverride, bringing(t, "child", perDay("rpm", 1000)))
	require.False(t, denied.Allowed)
	require.True(t, balance(t, denied.Limits, "parent", "rpm").Exceeded)
	require.EqualValues(t, 995, balance(t, denied.Limits, "child", "rpm").Available)
	require.Nil(t, w.item(t, "child", "gpt-4"))

	w.under(t, "child", "")
	w.tell(t, api.LimitsTarget{Entity: "child"})
	require.Eventually(t, func() bool {
		return ask[api.AcquireReply](t, nc, api.VerbAcquireOverride, bringing(t, "child", perDay("rpm", 1000))).Allowed
	}, patience, 10*time.Millisecond, "a change of the entity concerns its override buckets")
}

func TestBadOverridesWriteNothing(t *testing.T) {
	w := newWorld(t)
	w.setLimits(t, api.LimitsTarget{System: true}, perDay("rpm", 10))
	n := w.node(t, Tuning{})
	nc := w.nats.Connect(t)
	limit := func(fields string) string {
		return `{"entity":"e","resource":"gpt-4","consume":{"rpm":1},"limits":[` + fields + `]}`
	}
	rpm := `{"name":"rpm","capacity":10,"refill_amount":10,"refill_period_seconds":60}`
	many := make([]string, 17)
	for i := range many {
		many[i] = strings.ReplaceAll(rpm, "rpm", fmt.Sprintf("rpm%d", i))
	}
	before := n.faults.Counts()
	for name, c := range map[string]struct {
		body  string
		code  api.Code
		field string
	}{
		"no limits":         {oneRPM("e"), api.CodeMissingField, "limits"},
		"empty limits":      {limit(``), api.CodeMissingField, "limits"},
		"no array":          {`{"entity":"e","resource":"gpt-4","consume":{"rpm":1},"limits":{}}`, api.CodeWrongType, "limits"},
		"no name":           {limit(`{"capacity":10,"refill_amount":10,"refill_period_seconds":60}`), api.CodeMissingField, "limits[0].name"},
		"reserved name":     {limit(strings.ReplaceAll(rpm, "rpm", "wcu")), api.CodeInvalidLimitName, "limits[0].name"},
		"twice":             {limit(rpm + "," + rpm), api.CodeInvalidLimit, "limits[1].name"},
		"no capacity":       {limit(`{"name":"rpm","capacity":0,"refill_amount":10,"refill_period_seconds":60}`), api.CodeInvalidLimit, "limits[0].capacity"},
		"too fast":          {limit(`{"name":"rpm","capacity":10,"refill_amount":2000001,"refill_period_seconds":1}`), api.CodeInvalidLimit, "limits[0].refill_amount"},
		"too many":          {limit(strings.Join(many, ",")), api.CodeTooManyLimits, "limits[16]"},
		"unknown limit":     {strings.Replace(limit(rpm), `{"rpm":1}`, `{"tpm":1}`, 1), api.CodeUnknownLimit, "consume.tpm"},
		"override resource": {strings.Replace(limit(rpm), "gpt-4", `gpt-4\u0002AAAAAAAAAAA`, 1), api.CodeInvalidResource, "resource"},
	} {
		t.Run(name, func(t *testing.T) {
			e := refused(t, nc, api.VerbAcquireOverride, c.body, patience)
			require.Equal(t, c.code, e.Code, e.Message)
			require.Equal(t, 400, e.Status())
			require.Equal(t, c.field, e.Field)
		})
	}
	require.Equal(t, api.CodeInvalidResource, refused(t, nc, api.VerbStatus, `{"entity":"e","resource":"gpt-4\u0002AAAAAAAAAAA"}`, patience).Code)
	after := n.faults.Counts()
	for _, write := range []string{"UpdateItem", "PutItem"} {
		require.Equal(t, before[write].Calls, after[write].Calls, write)
	}
}
