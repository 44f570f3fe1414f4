package admission

import (
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tidegate/tidegate/pkg/api"
)

const one = `{"entity":"api-key-123","resource":"gpt-4","consume":{"rpm":1}}`

func rpmPerDay(t *testing.T, w *world, tokens int64) {
	t.Helper()
	w.setLimits(t, api.LimitsTarget{Resource: "gpt-4"}, perDay("rpm", tokens))
}

func TestAcquireSpeaksTheWireContract(t *testing.T) {
	w := newWorld(t)
	w.setLimits(t, api.LimitsTarget{System: true}, perDay("rpm", 100), perDay("tpm", 1000))
	w.node(t, Tuning{})
	nc := w.nats.Connect(t)
	m := send(t, nc, api.VerbAcquire, `{"entity":"api-key-123","resource":"gpt-4","consume":{"rpm":1,"tpm":500}}`, patience)
	var reply map[string]any
	require.NoError(t, json.Unmarshal(m.Data, &reply))
	require.NotEmpty(t, reply["lease"])
	delete(reply, "lease")
	rest, err := json.Marshal(reply)
	require.NoError(t, err)
	require.JSONEq(t, `{"allowed":true,"limits":[
		{"entity":"api-key-123","name":"rpm","capacity":100,"requested":1,"available":99},
		{"entity":"api-key-123","name":"tpm","capacity":1000,"requested":500,"available":500}]}`, string(rest))

	denied := acquire(t, nc, `{"entity":"api-key-123","resource":"gpt-4","consume":{"rpm":1,"tpm":501}}`)
	require.False(t, denied.Allowed)
	require.Empty(t, denied.Lease)
	require.False(t, denied.Limits[0].Exceeded)
	require.True(t, denied.Limits[1].Exceeded)
	require.InDelta(t, 86400, denied.RetryAfterMs, 60_000, "one token of 1000 per day takes 86.4 s")
	require.Equal(t, denied.RetryAfterMs, denied.Limits[1].RetryAfterMs)

	never := acquire(t, nc, `{"entity":"api-key-123","resource":"gpt-4","consume":{"tpm":1001}}`)
	require.True(t, never.Never)
	require.EqualValues(t, -1, never.RetryAfterMs)
	require.EqualValues(t, 500_000, w.item(t, "api-key-123", "gpt-4").Find("tpm").Consumed, "denials spend nothing")
}

// A limit of 100 per day admits exactly 100 of 1,000 concurrent requests from 64
// connections, and tells the others the truth about when.
func TestExactlyTheCapacityIsAdmitted(t *testing.T) {
	w := newWorld(t)
	rpmPerDay(t, w, 100)
	w.node(t, Tuning{})
	var admitted, denied atomic.Int64
	var wg sync.WaitGroup
	for c := range 64 {
		nc := w.nats.Connect(t)
		wg.Go(func() {
			for n := c; n < 1000; n += 64 {
				reply := acquire(t, nc, one)
				if reply.Allowed {
					admitted.Add(1)
					continue
				}
				denied.Add(1)
				require.Positive(t, reply.RetryAfterMs)
				require.LessOrEqual(t, reply.RetryAfterMs, int64(864_000), "one token of 100 per day takes 864 s")
			}
		})
	}
	wg.Wait()
	require.EqualValues(t, 100, admitted.Load())
	require.EqualValues(t, 900, denied.Load())
	require.EqualValues(t, 100, w.item(t, "api-key-123", "gpt-4").Acquires)
}

// A lone acquire costs one write unit, no read unit and no index unit (P5).
func TestALoneAcquireIsOneWrite(t *testing.T) {
	w := newWorld(t)
	rpmPerDay(t, w, 1000)
	n := w.node(t, Tuning{})
	nc := w.nats.Connect(t)
	acquire(t, nc, one) // makes the bucket
	before := n.faults.Total()
	for range 20 {
		require.True(t, acquire(t, nc, one).Allowed)
	}
	after := n.faults.Total()
	require.EqualValues(t, 20, after.Calls-before.Calls)
	require.InDelta(t, 20, after.WriteUnits-before.WriteUnits, 0)
	require.InDelta(t, 0, after.ReadUnits-before.ReadUnits, 0)
	require.InDelta(t, 0, after.IndexWriteUnits-before.IndexWriteUnits, 0)
	require.EqualValues(t, 21, w.item(t, "api-key-123", "gpt-4").WriteUnits, "the item counts what it has cost")
}

// A bucket that is known to be short denies without a write.
func TestDenialsWriteNothing(t *testing.T) {
	w := newWorld(t)
	rpmPerDay(t, w, 1)
	n := w.node(t, Tuning{})
	nc := w.nats.Connect(t)
	require.True(t, acquire(t, nc, one).Allowed)
	before := n.faults.Counts()
	for range 200 {
		require.False(t, acquire(t, nc, one).Allowed)
	}
	after := n.faults.Counts()
	require.Equal(t, before["UpdateItem"].Calls, after["UpdateItem"].Calls)
	require.Equal(t, before["PutItem"].Calls, after["PutItem"].Calls)
}

func TestBadInputWritesNothing(t *testing.T) {
	w := newWorld(t)
	w.setLimits(t, api.LimitsTarget{Resource: "gpt-4"}, perDay("rpm", 10))
	n := w.node(t, Tuning{})
	nc := w.nats.Connect(t)
	lease := acquire(t, nc, one).Lease
	altered := []byte(lease)
	if altered[20]++; altered[20] > 'z' || lease[20] == 'Z' || lease[20] == '9' {
		altered[20] = 'A'
	}
	before := n.faults.Counts()
	deltas := func(token, deltas string) string { return fmt.Sprintf(`{"lease":%q,"deltas":%s}`, token, deltas) }
	body := func(consume string) string {
		return `{"entity":"api-key-123","resource":"gpt-4","consume":` + consume + `}`
	}
	for name, c := range map[string]struct {
		verb api.Verb
		body string
		code api.Code
	}{
		"malformed JSON":        {api.VerbAcquire, `{"entity":`, api.CodeMalformedJSON},
		"trailing data":         {api.VerbAcquire, one + `{}`, api.CodeMalformedJSON},
		"no object":             {api.VerbAcquire, `[]`, api.CodeWrongType},
		"wrong type":            {api.VerbAcquire, `{"entity":7,"resource":"gpt-4","consume":{"rpm":1}}`, api.CodeWrongType},
		"unknown field":         {api.VerbAcquire, `{"entity":"e","resource":"gpt-4","consume":{"rpm":1},"x":1}`, api.CodeUnknownField},
		"limits without leave":  {api.VerbAcquire, `{"entity":"e","resource":"gpt-4","consume":{"rpm":1},"limits":[]}`, api.CodeUnknownField},
		"missing entity":        {api.VerbAcquire, `{"resource":"gpt-4","consume":{"rpm":1}}`, api.CodeMissingField},
		"empty consume":         {api.VerbAcquire, body(`{}`), api.CodeEmptyConsume},
		"unknown limit":         {api.VerbAcquire, body(`{"tpm":1}`), api.CodeUnknownLimit},
		"reserved limit":        {api.VerbAcquire, body(`{"wcu":1}`), api.CodeInvalidLimitName},
		"negative":              {api.VerbAcquire, body(`{"rpm":-1}`), api.CodeInvalidAmount},
		"fraction":              {api.VerbAcquire, body(`{"rpm":1.5}`), api.CodeInvalidAmount},
		"exponent":              {api.VerbAcquire, body(`{"rpm":1e400}`), api.CodeInvalidAmount},
		"overflow":              {api.VerbAcquire, body(`{"rpm":99999999999999999999}`), api.CodeInvalidAmount},
		"too much":              {api.VerbAcquire, body(`{"rpm":1099511627777}`), api.CodeInvalidAmount},
		"ill-formed entity":     {api.VerbAcquire, `{"entity":"a\tb","resource":"gpt-4","consume":{"rpm":1}}`, api.CodeInvalidEntity},
		"over-long entity":      {api.VerbAcquire, `{"entity":"` + strings.Repeat("a", 257) + `","resource":"gpt-4","consume":{"rpm":1}}`, api.CodeInvalidEntity},
		"ill-formed resource":   {api.VerbAcquire, `{"entity":"e","resource":"_default_","consume":{"rpm":1}}`, api.CodeInvalidResource},
		"over-long resource":    {api.VerbAcquire, `{"entity":"e","resource":"` + strings.Repeat("a", 257) + `","consume":{"rpm":1}}`, api.CodeInvalidResource},
		"ill-formed limit":      {api.VerbAcquire, body(`{"1rpm":1}`), api.CodeInvalidLimitName},
		"unknown policy":        {api.VerbAcquire, `{"entity":"e","resource":"gpt-4","consume":{"rpm":1},"on_unavailable":"maybe"}`, api.CodeInvalidPolicy},
		"no limits configured":  {api.VerbAcquire, `{"entity":"e","resource":"other","consume":{"rpm":1}}`, api.CodeNoLimits},
		"payload too large":     {api.VerbAcquire, `{"entity":"` + strings.Repeat("a", api.MaxPayload) + `"}`, api.CodePayloadTooLarge},
		"forged lease":          {api.VerbAdjust, deltas("AQAAAAAAAA", `{"rpm":1}`), api.CodeInvalidLease},
		"altered lease":         {api.VerbRelease, fmt.Sprintf(`{"lease":%q}`, altered), api.CodeInvalidLease},
		"lease without deltas":  {api.VerbAdjust, fmt.Sprintf(`{"lease":%q}`, lease), api.CodeMissingField},
		"gives back too much":   {api.VerbAdjust, deltas(lease, `{"rpm":-2}`), api.CodeExceedsLease},
		"delta of another name": {api.VerbAdjust, deltas(lease, `{"tpm":1}`), api.CodeUnknownLimit},
		"unknown admin verb":    {api.Verb("admin.limits.raise"), `{}`, api.CodeUnknownVerb},
		"status without entity": {api.VerbStatus, `{}`, api.CodeMissingField},
	} {
		t.Run(name, func(t *testing.T) {
			e := refused(t, nc, c.verb, c.body, patience)
			require.Equal(t, c.code, e.Code, e.Message)
			require.Equal(t, 400, e.Status())
			require.NotEmpty(t, e.Message)
			require.Less(t, len(e.Message), 400)
		})
	}
	after := n.faults.Counts()
	for _, write := range []string{"UpdateItem", "PutItem", "DeleteItem", "TransactWriteItems"} {
		require.Equal(t, before[write].Calls, after[write].Calls, write)
	}
	e := refused(t, nc, api.VerbAcquire, `{"entity":"e","resource":"other","consume":{"rpm":1}}`, patience)
	for _, place := range []string{"entity", "resource", "system", "other"} {
		require.Contains(t, e.Message, place, "the message names the four places looked at")
	}
	m, err := nc.Request(api.Subject("nobody", api.VerbAcquire), []byte(one), patience)
	require.NoError(t, err)
	require.Equal(t, api.CodeUnknownNamespace, api.DecodeError(m.Data).Code)
	require.Equal(t, "404", m.Header.Get(api.HeaderErrorCode))
	for _, timeout := range []string{"0", "-1", "soon", "1.5"} {
		msg := natsMsg(api.VerbAcquire, one)
		msg.Header.Set(api.HeaderTimeout, timeout)
		m, err := nc.RequestMsg(msg, patience)
		require.NoError(t, err)
		require.Equal(t, api.CodeInvalidTimeout, api.DecodeError(m.Data).Code, timeout)
	}
}

// A limit that was added while its invalidation got lost is known within a second.
func TestAnAddedLimitIsFoundWithoutNews(t *testing.T) {
	w := newWorld(t)
	rpmPerDay(t, w, 10)
	w.node(t, Tuning{})
	nc := w.nats.Connect(t)
	require.True(t, acquire(t, nc, one).Allowed)
	w.setLimits(t, api.LimitsTarget{Resource: "gpt-4"}, perDay("rpm", 10), perDay("tpm", 1000))
	require.Eventually(t, func() bool {
		m := send(t, nc, api.VerbAcquire, `{"entity":"api-key-123","resource":"gpt-4","consume":{"tpm":1}}`, patience)
		return m.Header.Get(api.HeaderErrorCode) == ""
	}, patience, 50*time.Millisecond)
}

// The status of an entity shows what still has limits.
func TestStatusLeavesOutBucketsWithoutLimits(t *testing.T) {
	w := tpmWorld(t)
	w.setLimits(t, api.LimitsTarget{Resource: "gpt-5"}, perDay("rpm", 10))
	w.node(t, Tuning{})
	nc := w.nats.Connect(t)
	acquire(t, nc, tokens500)
	acquire(t, nc, strings.Replace(one, "gpt-4", "gpt-5", 1))
	require.NoError(t, w.limits.Delete(t.Context(), w.ns, api.Principal{}, api.LimitsDeleteRequest{LimitsTarget: api.LimitsTarget{Resource: "gpt-5"}}))
	reply := ask[api.StatusReply](t, nc, api.VerbStatus, `{"entity":"api-key-123"}`)
	require.Len(t, reply.Limits, 2)
}
