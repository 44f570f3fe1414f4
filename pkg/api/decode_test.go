package api_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"math"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tidegate/tidegate/pkg/api"
)

func TestDecodeAcquireRefuses(t *testing.T) {
	many := make([]string, api.MaxLimits+1)
	for i := range many {
		many[i] = fmt.Sprintf(`"l%d":1`, i)
	}
	consume := func(v string) string { return `{"entity":"e","resource":"r","consume":` + v + `}` }
	for _, c := range []struct {
		payload string
		code    api.Code
		field   string
	}{
		{``, api.CodeMalformedJSON, ""},
		{` `, api.CodeMalformedJSON, ""},
		{`nope`, api.CodeMalformedJSON, ""},
		{`{`, api.CodeMalformedJSON, ""},
		{`{"entity"`, api.CodeMalformedJSON, ""},
		{`{"entity":`, api.CodeMalformedJSON, "entity"},
		{`{"entity":"e`, api.CodeMalformedJSON, "entity"},
		{`{"entity":"e",}`, api.CodeMalformedJSON, ""},
		{`{"entity":"e" "resource":"r"}`, api.CodeMalformedJSON, ""},
		{`{entity:"e"}`, api.CodeMalformedJSON, ""},
		{`{'entity':"e"}`, api.CodeMalformedJSON, ""},
		{`{"entity":"a` + "\n" + `"}`, api.CodeMalformedJSON, "entity"},
		{`{"entity":"a` + "\xff" + `"}`, api.CodeMalformedJSON, "entity"},
		{`{"entity":"a\x"}`, api.CodeMalformedJSON, "entity"},
		{`{"entity":"a\ud800"}`, api.CodeMalformedJSON, "entity"},
		{`{"entity":"a\u00_0"}`, api.CodeMalformedJSON, "entity"},
		{`{"entity":"a\`, api.CodeMalformedJSON, "entity"},
		{`{"entity":nul}`, api.CodeMalformedJSON, "entity"},
		{consume(`{"rpm":1}`) + `{}`, api.CodeMalformedJSON, ""},
		{consume(`{"rpm":1}`) + "\x00", api.CodeMalformedJSON, ""},
		{`{"entity":"e","entity":"e"}`, api.CodeMalformedJSON, "entity"},
		{consume(`{"rpm":1,"rpm":2}`), api.CodeMalformedJSON, "consume.rpm"},
		{consume(`{"rpm":01}`), api.CodeMalformedJSON, "consume.rpm"},
		{consume(`{"rpm":1.}`), api.CodeMalformedJSON, "consume.rpm"},
		{consume(`{"rpm":1e}`), api.CodeMalformedJSON, "consume.rpm"},
		{consume(`{"rpm":-}`), api.CodeMalformedJSON, "consume.rpm"},
		{consume(`{"rpm":+1}`), api.CodeMalformedJSON, "consume.rpm"},
		{consume(`{"rpm":1_0}`), api.CodeMalformedJSON, "consume"},
		{consume(`{"rpm":NaN}`), api.CodeMalformedJSON, "consume.rpm"},

		{`[]`, api.CodeWrongType, ""},
		{`"x"`, api.CodeWrongType, ""},
		{`null`, api.CodeWrongType, ""},
		{`{"entity":1}`, api.CodeWrongType, "entity"},
		{`{"entity":null}`, api.CodeWrongType, "entity"},
		{`{"resource":true}`, api.CodeWrongType, "resource"},
		{`{"on_unavailable":{}}`, api.CodeWrongType, "on_unavailable"},
		{consume(`[]`), api.CodeWrongType, "consume"},
		{consume(`{"rpm":"1"}`), api.CodeWrongType, "consume.rpm"},
		{consume(`{"rpm":[1]}`), api.CodeWrongType, "consume.rpm"},

		{`{"entity":"e","resource":"r","consume":{"rpm":1},"x":1}`, api.CodeUnknownField, "x"},
		{`{"Entity":"e"}`, api.CodeUnknownField, "Entity"},
		{`{"entity":"e","limits":[]}`, api.CodeUnknownField, "limits"},
		{`{}`, api.CodeMissingField, "entity"},
		{`{"entity":"e","consume":{"rpm":1}}`, api.CodeMissingField, "resource"},
		{`{"entity":"e","resource":"r"}`, api.CodeMissingField, "consume"},

		{`{"entity":""}`, api.CodeInvalidEntity, "entity"},
		{`{"resource":"_default_"}`, api.CodeInvalidResource, "resource"},
		{consume(`{"":1}`), api.CodeInvalidLimitName, "consume"},
		{consume(`{"wcu":1}`), api.CodeInvalidLimitName, "consume.wcu"},
		{consume(`{"rpm":-1}`), api.CodeInvalidAmount, "consume.rpm"},
		{consume(`{"rpm":1.5}`), api.CodeInvalidAmount, "consume.rpm"},
		{consume(`{"rpm":1.0}`), api.CodeInvalidAmount, "consume.rpm"},
		{consume(`{"rpm":1e3}`), api.CodeInvalidAmount, "consume.rpm"},
		{consume(`{"rpm":1099511627777}`), api.CodeInvalidAmount, "consume.rpm"},
		{consume(`{"rpm":99999999999999999999}`), api.CodeInvalidAmount, "consume.rpm"},
		{consume(`{}`), api.CodeEmptyConsume, "consume"},
		{consume(`{` + strings.Join(many, ",") + `}`), api.CodeTooManyLimits, "consume.l16"},
		{`{"on_unavailable":"maybe"}`, api.CodeInvalidPolicy, "on_unavailable"},
		{`{"on_unavailable":""}`, api.CodeInvalidPolicy, "on_unavailable"},
		{strings.Repeat(" ", api.MaxPayload) + `{`, api.CodePayloadTooLarge, ""},
	} {
		t.Run(c.payload[:min(len(c.payload), 60)], func(t *testing.T) {
			q, err := api.DecodeAcquire([]byte(c.payload), false)
			requireCode(t, err, c.code, c.field)
			require.Zero(t, q)
		})
	}
}

func TestDecodeOverrideRefuses(t *testing.T) {
	limit := `{"name":"rpm","capacity":1,"refill_amount":1,"refill_period_seconds":1}`
	for _, c := range []struct {
		limits string
		code   api.Code
		field  string
	}{
		{`{}`, api.CodeWrongType, "limits"},
		{`[]`, api.CodeMissingField, "limits"},
		{`[1]`, api.CodeWrongType, "limits[0]"},
		{`[` + limit, api.CodeMalformedJSON, "limits"},
		{`[` + limit + `,]`, api.CodeMalformedJSON, "limits[1]"},
		{`[` + limit + `,` + limit + `]`, api.CodeInvalidLimit, "limits[1].name"},
		{`[{"name":"rpm"}]`, api.CodeMissingField, "limits[0].capacity"},
		{`[{"capacity":1}]`, api.CodeMissingField, "limits[0].name"},
		{`[{"name":"rpm","capacity":1}]`, api.CodeMissingField, "limits[0].refill_amount"},
		{`[{"name":"rpm","capacity":1,"refill_amount":1}]`, api.CodeMissingField, "limits[0].refill_period_seconds"},
		{`[{"name":"rpm","capacity":0}]`, api.CodeInvalidLimit, "limits[0].capacity"},
		{`[{"name":"rpm","capacity":1.5}]`, api.CodeInvalidLimit, "limits[0].capacity"},
		{`[{"name":"rpm","capacity":1,"refill_amount":2000001,"refill_period_seconds":1}]`, api.CodeInvalidLimit, "limits[0].refill_amount"},
		{`[{"name":"wcu"}]`, api.CodeInvalidLimitName, "limits[0].name"},
		{`[{"nam":"rpm"}]`, api.CodeUnknownField, "limits[0].nam"},
		{`[` + distinctLimits(api.MaxLimits+1) + `]`, api.CodeTooManyLimits, "limits[16]"},
	} {
		t.Run(c.limits[:min(len(c.limits), 60)], func(t *testing.T) {
			_, err := api.DecodeAcquire([]byte(`{"entity":"e","resource":"r","consume":{"rpm":1},"limits":`+c.limits+`}`), true)
			requireCode(t, err, c.code, c.field)
		})
	}
	_, err := api.DecodeAcquire([]byte(`{"entity":"e","resource":"r","consume":{"rpm":1}}`), true)
	requireCode(t, err, api.CodeMissingField, "limits")
	q, err := api.DecodeAcquire([]byte(`{"entity":"e","resource":"r","consume":{"rpm":1},"limits":[`+distinctLimits(api.MaxLimits)+`]}`), true)
	require.NoError(t, err)
	require.Len(t, q.Limits, api.MaxLimits)
}

func distinctLimits(n int) string {
	limits := make([]string, n)
	for i := range limits {
		limits[i] = fmt.Sprintf(`{"name":"l%d","capacity":1,"refill_amount":1,"refill_period_seconds":1}`, i)
	}
	return strings.Join(limits, ",")
}

func TestDecodeOthersRefuse(t *testing.T) {
	for _, c := range []struct {
		decode  func([]byte) (any, error)
		payload string
		code    api.Code
		field   string
	}{
		{erased(api.DecodeAdjust), `{"lease":"x"}`, api.CodeMissingField, "deltas"},
		{erased(api.DecodeAdjust), `{"deltas":{"rpm":1}}`, api.CodeMissingField, "lease"},
		{erased(api.DecodeAdjust), `{"lease":"x","deltas":{}}`, api.CodeEmptyConsume, "deltas"},
		{erased(api.DecodeAdjust), `{"lease":"x","deltas":{"rpm":-1099511627777}}`, api.CodeInvalidAmount, "deltas.rpm"},
		{erased(api.DecodeAdjust), `{"lease":"x","y":1}`, api.CodeUnknownField, "y"},
		{erased(api.DecodeRelease), `{}`, api.CodeMissingField, "lease"},
		{erased(api.DecodeRelease), `{"lease":5}`, api.CodeWrongType, "lease"},
		{erased(api.DecodeRelease), `{"leases":"x"}`, api.CodeUnknownField, "leases"},
		{erased(api.DecodeStatus), `{}`, api.CodeMissingField, "entity"},
		{erased(api.DecodeStatus), `{"entity":"e","consume":{"rpm":1}}`, api.CodeMissingField, "resource"},
		{erased(api.DecodeStatus), `{"entity":"e","lease":1}`, api.CodeUnknownField, "lease"},
		{erased(api.DecodeStatus), `{"entity":"e","limit":0}`, api.CodeInvalidAmount, "limit"},
		{erased(api.DecodeStatus), `{"entity":"e","limit":1001}`, api.CodeInvalidAmount, "limit"},
		{erased(api.DecodeStatus), `{"entity":"e","cursor":1}`, api.CodeWrongType, "cursor"},
		{erased(api.DecodeStatus), `{"entity":"e","resource":"r","limit":1}`, api.CodeInvalidAmount, "limit"},
		{erased(api.DecodeStatus), `{"entity":"e","resource":"r","cursor":"c"}`, api.CodeInvalidCursor, "cursor"},
		{erased(api.DecodeRequest[api.LimitsSetRequest]), `{"limits":[` + distinctLimits(1) + `]}`, api.CodeMissingField, ""},
		{erased(api.DecodeRequest[api.LimitsSetRequest]), `{"system":true}`, api.CodeMissingField, "limits"},
		{erased(api.DecodeRequest[api.LimitsSetRequest]), `{"system":1}`, api.CodeWrongType, "system"},
		{erased(api.DecodeRequest[api.LimitsSetRequest]), `{"level":1}`, api.CodeUnknownField, "level"},
		{erased(api.DecodeRequest[api.LimitsGetRequest]), `{"system":true,"entity":"e"}`, api.CodeUnknownField, "system"},
		{erased(api.DecodeRequest[api.LimitsGetRequest]), `{"system":false}`, api.CodeMissingField, ""},
		{erased(api.DecodeRequest[api.LimitsDeleteRequest]), `{"entity":"a\tb"}`, api.CodeInvalidEntity, "entity"},
		{erased(api.DecodeRequest[api.LimitsListRequest]), `{"limit":0}`, api.CodeInvalidAmount, "limit"},
		{erased(api.DecodeRequest[api.LimitsListRequest]), `{"limit":1001}`, api.CodeInvalidAmount, "limit"},
		{erased(api.DecodeRequest[api.LimitsResolveRequest]), `{"entity":"e"}`, api.CodeMissingField, "resource"},
		{erased(api.DecodeRequest[api.LimitsResolveRequest]), `{"resource":"r"}`, api.CodeMissingField, "entity"},
		{erased(api.DecodeRequest[api.LimitsResolveRequest]), `{"system":true}`, api.CodeUnknownField, "system"},
		{erased(api.DecodeRequest[api.EntityCreateRequest]), `{}`, api.CodeMissingField, "entity"},
		{erased(api.DecodeRequest[api.EntityCreateRequest]), `{"entity":""}`, api.CodeInvalidEntity, "entity"},
		{erased(api.DecodeRequest[api.EntityCreateRequest]), `{"entity":"e","parent":""}`, api.CodeInvalidEntity, "parent"},
		{erased(api.DecodeRequest[api.EntityCreateRequest]), `{"entity":"e","parent":"e"}`, api.CodeInvalidParent, "parent"},
		{erased(api.DecodeRequest[api.EntityCreateRequest]), `{"entity":"e","cascade":true}`, api.CodeMissingField, "parent"},
		{erased(api.DecodeRequest[api.EntityCreateRequest]), `{"entity":"e","cascade":1}`, api.CodeWrongType, "cascade"},
		{erased(api.DecodeRequest[api.EntityCreateRequest]), `{"entity":"e","name":"a\u0007"}`, api.CodeInvalidName, "name"},
		{erased(api.DecodeRequest[api.EntityCreateRequest]), `{"entity":"e","name":"` + strings.Repeat("x", 129) + `"}`, api.CodeInvalidName, "name"},
		{erased(api.DecodeRequest[api.EntityCreateRequest]), `{"entity":"e","metadata":[]}`, api.CodeWrongType, "metadata"},
		{erased(api.DecodeRequest[api.EntityCreateRequest]), `{"entity":"e","metadata":{"a":1}}`, api.CodeWrongType, "metadata.a"},
		{erased(api.DecodeRequest[api.EntityCreateRequest]), `{"entity":"e","metadata":{"a":"1","a":"2"}}`, api.CodeMalformedJSON, "metadata.a"},
		{erased(api.DecodeRequest[api.EntityCreateRequest]), `{"entity":"e","metadata":{"a b":""}}`, api.CodeInvalidMetadata, "metadata"},
		{erased(api.DecodeRequest[api.EntityCreateRequest]), `{"entity":"e","version":1}`, api.CodeUnknownField, "version"},
		{erased(api.DecodeRequest[api.EntityGetRequest]), `{}`, api.CodeMissingField, "entity"},
		{erased(api.DecodeRequest[api.EntityGetRequest]), `{"name":"e"}`, api.CodeUnknownField, "name"},
		{erased(api.DecodeRequest[api.EntityUpdateRequest]), `{"name":"x"}`, api.CodeMissingField, "entity"},
		{erased(api.DecodeRequest[api.EntityUpdateRequest]), `{"entity":"e"}`, api.CodeMissingField, ""},
		{erased(api.DecodeRequest[api.EntityUpdateRequest]), `{"entity":"e","parent":"a\tb"}`, api.CodeInvalidEntity, "parent"},
		{erased(api.DecodeRequest[api.EntityUpdateRequest]), `{"entity":"e","parent":null}`, api.CodeWrongType, "parent"},
		{erased(api.DecodeRequest[api.EntityUpdateRequest]), `{"entity":"e","name":"x","version":0}`, api.CodeInvalidVersion, "version"},
		{erased(api.DecodeRequest[api.EntityDeleteRequest]), `{"orphan":true}`, api.CodeMissingField, "entity"},
		{erased(api.DecodeRequest[api.EntityDeleteRequest]), `{"entity":"e","force":true}`, api.CodeUnknownField, "force"},
		{erased(api.DecodeRequest[api.EntityChildrenRequest]), `{}`, api.CodeMissingField, "entity"},
		{erased(api.DecodeRequest[api.EntityChildrenRequest]), `{"entity":"e","limit":0}`, api.CodeInvalidAmount, "limit"},
		{erased(api.DecodeRequest[api.EntityListRequest]), `{"entity":"e"}`, api.CodeUnknownField, "entity"},
		{erased(api.DecodeRequest[api.EntityListRequest]), `{"limit":1001}`, api.CodeInvalidAmount, "limit"},
		{erased(api.DecodeRequest[api.AuditListRequest]), `{"entity":"e","resource":"r"}`, api.CodeUnknownField, "resource"},
		{erased(api.DecodeRequest[api.AuditListRequest]), `{"action":"limits.guess"}`, api.CodeInvalidAction, "action"},
		{erased(api.DecodeRequest[api.AuditListRequest]), `{"from_ms":-1}`, api.CodeInvalidTime, "from_ms"},
		{erased(api.DecodeRequest[api.AuditListRequest]), `{"from_ms":1.5}`, api.CodeInvalidTime, "from_ms"},
		{erased(api.DecodeRequest[api.AuditListRequest]), `{"from_ms":2,"to_ms":1}`, api.CodeInvalidTime, "to_ms"},
		{erased(api.DecodeRequest[api.AuditListRequest]), `{"since":1}`, api.CodeUnknownField, "since"},
		{erased(api.DecodeRequest[api.AuditVerifyRequest]), `{"from_ms":2,"to_ms":1}`, api.CodeInvalidTime, "to_ms"},
		{erased(api.DecodeRequest[api.AuditVerifyRequest]), `{"entity":"e"}`, api.CodeUnknownField, "entity"},
		{erased(api.DecodeRequest[api.AuditShowRequest]), `{}`, api.CodeMissingField, "id"},
		{erased(api.DecodeRequest[api.AuditShowRequest]), `{"sequence":1}`, api.CodeUnknownField, "sequence"},
	} {
		t.Run(c.payload, func(t *testing.T) {
			_, err := c.decode([]byte(c.payload))
			requireCode(t, err, c.code, c.field)
		})
	}
}

func TestDecodeAccepts(t *testing.T) {
	q, err := api.DecodeAcquire([]byte(" {\t\"consume\":{\"rp\\u006d\":-0, \"tpm\" : 1099511627776 },\n\"resource\":\"openai\\/gpt-4\",\"\\u0065ntity\" : \"\\u0061b\"} \r\n"), false)
	require.NoError(t, err)
	require.Equal(t, api.AcquireRequest{
		Entity: "ab", Resource: "openai/gpt-4", Consume: api.Amounts{{Name: "rpm", Tokens: 0}, {Name: "tpm", Tokens: api.MaxAmount}},
	}, q)

	list, err := api.DecodeRequest[api.LimitsListRequest]([]byte(`{}`))
	require.NoError(t, err)
	require.EqualValues(t, api.DefaultPage, list.Limit)

	lease := "\U0001F600\"\\/\b\f\n\r\té"
	escaped := `"\ud83d\ude00\"\\\/\b\f\n\r\t\u00e9"`
	r, err := api.DecodeRelease([]byte(`{"lease":` + escaped + `}`))
	require.NoError(t, err)
	require.Equal(t, lease, r.Lease)
}

// TestAllocations: what is kept of a long request must not hold its
// payload in memory, and a short one is copied once.
func TestAllocations(t *testing.T) {
	short := []byte(sampleAcquire)
	require.LessOrEqual(t, testing.AllocsPerRun(100, func() { _, _ = api.DecodeAcquire(short, false) }), 3.0)
	long := []byte(sampleAcquire + strings.Repeat(" ", 1000))
	require.Greater(t, testing.AllocsPerRun(100, func() { _, _ = api.DecodeAcquire(long, false) }), 5.0, "the names are clones")
}

func TestDecodeReplyIsLenient(t *testing.T) {
	reply, err := api.DecodeAcquireReply([]byte(`{"allowed":true,"new":[{"x":[1.5e3,null,false,"é"]}],"lease":"l","limits":[{"entity":"e","name":"rpm","new":{},"available":-5}]}`))
	require.NoError(t, err)
	require.Equal(t, api.AcquireReply{Allowed: true, Lease: "l", Limits: []api.LimitStatus{{Entity: "e", Name: "rpm", Available: -5}}}, reply)

	for _, payload := range []string{``, `[]`, `{"allowed":1}`, `{"limits":[{"capacity":1.5}]}`, `{"x":` + strings.Repeat("[", 100) + `}`, `{"allowed":true}x`, `{"x":tru}`} {
		_, err := api.DecodeAcquireReply([]byte(payload))
		requireCode(t, err, "*", "*")
	}
}

func TestAmounts(t *testing.T) {
	a := api.Amounts{{Name: "rpm", Tokens: 1}, {Name: "tpm", Tokens: -5}, {Name: "z", Tokens: 0}}
	tokens, ok := a.Get("tpm")
	require.True(t, ok)
	require.EqualValues(t, -5, tokens)
	_, ok = a.Get("nope")
	require.False(t, ok)
	require.Equal(t, api.Amounts{{Name: "rpm", Tokens: 1}}, a.Positive())

	var back api.Amounts
	require.Error(t, json.Unmarshal([]byte(`{"rpm":1,"rpm":2}`), &back))
	require.Nil(t, back)
}

func TestSubjects(t *testing.T) {
	for _, verb := range api.Verbs() {
		namespace, got, ok := api.ParseSubject(api.Subject("tenant-a", verb))
		require.True(t, ok)
		require.Equal(t, "tenant-a", namespace)
		require.Equal(t, verb, got)
	}
	for _, subject := range []string{"", "tidegate.v1", "tidegate.v1.", "tidegate.v1.ns", "tidegate.v1.ns.", "tidegate.v1..acquire", "tidegate.v2.ns.acquire", "x.tidegate.v1.ns.acquire"} {
		_, _, ok := api.ParseSubject(subject)
		require.False(t, ok, subject)
	}
	namespace, ok := api.ParseConfigSubject(api.ConfigSubject("tenant-a"))
	require.True(t, ok)
	require.Equal(t, "tenant-a", namespace)
	_, ok = api.ParseConfigSubject("tidegate.config.v1.")
	require.False(t, ok)
}

func TestTimeout(t *testing.T) {
	for value, want := range map[string]time.Duration{
		"": api.DefaultTimeout, "1": time.Millisecond, "1500": 1500 * time.Millisecond, "60000": time.Minute,
		"60001": api.MaxTimeout, "99999999999999999999999": api.MaxTimeout, "9223372036854775807": api.MaxTimeout,
	} {
		got, err := api.ParseTimeout(value)
		require.NoError(t, err, value)
		require.Equal(t, want, got, value)
	}
	for _, value := range []string{"0", "-1", "+1", "1.5", "1s", " 1", "one", "1e3"} {
		_, err := api.ParseTimeout(value)
		requireCode(t, err, api.CodeInvalidTimeout, api.HeaderTimeout)
	}
	require.Equal(t, "1", api.FormatTimeout(-time.Second))
	require.Equal(t, "1999", api.FormatTimeout(1999*time.Millisecond+999*time.Microsecond))
}

func TestDeadline(t *testing.T) {
	_, ok, err := api.ParseDeadline("")
	require.NoError(t, err)
	require.False(t, ok)
	for value, want := range map[string]int64{
		"0": 0, "1": 1, "1763712000123": 1763712000123, "9223372036854775807": math.MaxInt64, "99999999999999999999999": math.MaxInt64,
	} {
		got, ok, err := api.ParseDeadline(value)
		require.NoError(t, err, value)
		require.True(t, ok)
		require.Equal(t, want, got, value)
	}
	for _, value := range []string{"-1", "+1", "1.5", "1763712000.123", "1s", " 1", "one", "1e3", "2026-11-21T08:00:00Z"} {
		_, ok, err := api.ParseDeadline(value)
		requireCode(t, err, api.CodeInvalidTimeout, api.HeaderDeadline)
		require.False(t, ok)
	}
	at := time.UnixMilli(1763712000123)
	require.Equal(t, "1763712000123", api.FormatTime(at))
	require.Equal(t, "1763712000124", api.FormatTime(at.Add(time.Microsecond)), "a deadline is never announced too early")
	got, ok := api.ParseTime(api.FormatTime(at))
	require.True(t, ok)
	require.True(t, at.Equal(got))
	for _, value := range []string{"", "0", "-5", "soon", "99999999999999999999999"} {
		_, ok := api.ParseTime(value)
		require.False(t, ok, value)
	}
}

func TestErrors(t *testing.T) {
	e := api.Errorf(api.CodeUnknownLimit, "consume.tpm", "no %s", "limit")
	require.Equal(t, "unknown_limit: consume.tpm: no limit", e.Error())
	require.Equal(t, "internal: no limit", api.Errorf(api.CodeInternal, "", "no limit").Error())
	require.Equal(t, 400, e.Status())
	require.Equal(t, e, api.DecodeError(e.JSON()))
	for _, body := range []string{"", "nginx says no", `{"message":"x"}`, `[]`} {
		require.Equal(t, api.CodeInternal, api.DecodeError([]byte(body)).Code)
	}
	require.Equal(t, 500, api.Code("brand_new").Status())
}

// TestCodesAreComplete finds every declared code in the list, with a meaning.
func TestCodesAreComplete(t *testing.T) {
	file, err := parser.ParseFile(token.NewFileSet(), "codes.go", nil, 0)
	require.NoError(t, err)
	declared := map[api.Code]bool{}
	ast.Inspect(file, func(n ast.Node) bool {
		if spec, ok := n.(*ast.ValueSpec); ok {
			value, err := strconv.Unquote(spec.Values[0].(*ast.BasicLit).Value)
			require.NoError(t, err)
			declared[api.Code(value)] = true
		}
		return true
	})
	unknown := api.Code("no such code").Meaning()
	for _, c := range api.Codes() {
		require.True(t, declared[c], c)
		require.NotEqual(t, unknown, c.Meaning(), c)
		require.Contains(t, []int{400, 403, 404, 408, 409, 500, 503}, c.Status())
		delete(declared, c)
	}
	require.Empty(t, declared)
}

func FuzzDecode(f *testing.F) {
	for _, m := range messages() {
		payload, err := json.Marshal(m.value)
		require.NoError(f, err)
		f.Add(payload)
	}
	f.Add([]byte(`{"entity":"a\ud83d\ude00","x":[1e5,-0.1]}`))
	decoders := []func([]byte) (any, error){
		acquire(false), acquire(true), erased(api.DecodeAdjust), erased(api.DecodeRelease), erased(api.DecodeStatus),
		erased(api.DecodeRequest[api.LimitsSetRequest]), erased(api.DecodeRequest[api.LimitsGetRequest]), erased(api.DecodeRequest[api.LimitsDeleteRequest]), erased(api.DecodeRequest[api.LimitsListRequest]), erased(api.DecodeRequest[api.LimitsResolveRequest]),
		erased(api.DecodeRequest[api.EntityCreateRequest]), erased(api.DecodeRequest[api.EntityGetRequest]), erased(api.DecodeRequest[api.EntityUpdateRequest]), erased(api.DecodeRequest[api.EntityDeleteRequest]),
		erased(api.DecodeRequest[api.EntityChildrenRequest]), erased(api.DecodeRequest[api.EntityListRequest]), erased(api.DecodeRequest[api.AuditListRequest]), erased(api.DecodeRequest[api.AuditShowRequest]), erased(api.DecodeRequest[api.AuditVerifyRequest]),
		erased(api.DecodeAcquireReply),
	}
	f.Fuzz(func(t *testing.T, payload []byte) {
		for i, decode := range decoders {
			v, err := decode(bytes.Clone(payload))
			if err != nil {
				requireCode(t, err, "*", "*")
				continue
			}
			require.True(t, json.Valid(payload), "decoder %d takes what is no JSON", i)
			again, err := json.Marshal(v)
			require.NoError(t, err)
			back, err := decode(again)
			require.NoError(t, err, "decoder %d, %s", i, again)
			twice, err := json.Marshal(back)
			require.NoError(t, err)
			require.Equal(t, string(again), string(twice))
		}
	})
}

func TestMayAnswer(t *testing.T) {
	for inbox, may := range map[string]bool{
		"":                             true, // nobody waits
		"_INBOX.abc.1":                 true,
		api.InboxPrefix("team") + ".x": true,
		"answers.of.a.custom.prefix":   true,
		"_R_.x":                        true,
		"$JS.API.STREAM.PURGE.X":       false,
		"$KV.CLAIMS.x":                 false,
		"$SYS.REQ.SERVER.PING":         false,
		api.ConfigSubject("default"):   false,
		api.Subject("default", api.VerbLimitsDelete): false,
	} {
		require.Equal(t, may, api.MayAnswer(inbox), inbox)
	}
}
