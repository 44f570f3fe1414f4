package control_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/stretchr/testify/require"

	"github.com/tidegate/tidegate/engine/fault"
	"github.com/tidegate/tidegate/internal/audit"
	"github.com/tidegate/tidegate/internal/config"
	"github.com/tidegate/tidegate/internal/control"
	"github.com/tidegate/tidegate/internal/shards"
	"github.com/tidegate/tidegate/internal/table"
	"github.com/tidegate/tidegate/internal/table/tabletest"
	"github.com/tidegate/tidegate/pkg/api"
	"github.com/tidegate/tidegate/pkg/bucket"
	"github.com/tidegate/tidegate/pkg/keys"
)

// message is one broadcast.
type message struct {
	subject string
	target  api.LimitsTarget
}

type fixture struct {
	*tabletest.Bench
	t          *testing.T
	admin      *control.Service
	broadcasts []message
	namespaces []string // that were broadcast
	publish    error    // what publishing answers
	clock      error    // what the clock answers
	log        bytes.Buffer
}

func newFixture(t *testing.T) *fixture {
	t.Helper()
	f := &fixture{Bench: tabletest.New(t), t: t}
	publish := func(subject string, data []byte) error {
		if subject == api.ConfigSubject(api.OperatorNamespace) {
			change, err := api.DecodeOperatorChange(data)
			require.NoError(t, err, "every node must be able to read a broadcast")
			f.namespaces = append(f.namespaces, change.Name)
			return f.publish
		}
		target, err := api.DecodeConfigChange(data)
		require.NoError(t, err, "every node must be able to read a broadcast")
		f.broadcasts = append(f.broadcasts, message{subject, target})
		return f.publish
	}
	now := func() (time.Time, error) { return time.UnixMilli(1_772_366_400_000), f.clock }
	instant := func() (bucket.Instant, error) { return 1_000_000_000, nil }
	log := audit.NewLog(f.DB, f.Table, now, audit.IndexLag(5*time.Millisecond))
	stores := control.Stores{
		Entities: config.NewEntityStore(f.DB, f.Table, log),
		Limits:   config.NewLimitStore(f.DB, f.Table, log), Audit: audit.NewReader(log, nil),
		Namespaces: config.NewNamespaceOperator(config.NewNamespaces(f.DB, f.Table), log, now),
		Keys:       control.NewLeaseKeys(f.DB, f.Table, log, now),
		Capacity:   control.NewCapacity(f.DB, f.Table, instant),
		Usage:      control.NewUsage(f.DB, f.Table),
		Shards:     shards.NewOperator(shards.NewStore(f.DB, f.Table, instant, func() string { return "test.1" }), log),
	}
	f.admin = control.New(stores, publish, slog.New(slog.NewTextHandler(&f.log, nil)))
	return f
}

func tenant() control.Caller {
	return control.Caller{Name: "tenant-a", ID: "AAAAAAAAAAA", By: api.Principal{User: "ops"}}
}

func operators() control.Caller {
	return control.Caller{Name: api.OperatorNamespace, ID: keys.Registry, By: api.Principal{User: "alice", Verified: true}}
}

func (f *fixture) handle(v api.Verb, body string) (string, *api.Error) {
	ns := tenant()
	if v.ForOperators() {
		ns = operators()
	}
	reply, refusal := f.admin.Handle(f.t.Context(), ns, v, []byte(body))
	return string(reply), refusal
}

func (f *fixture) do(v api.Verb, body, want string) {
	f.t.Helper()
	reply, refusal := f.handle(v, body)
	require.Nil(f.t, refusal)
	require.JSONEq(f.t, want, reply)
}

func (f *fixture) refuse(v api.Verb, body string, want api.Code) *api.Error {
	f.t.Helper()
	reply, refusal := f.handle(v, body)
	require.NotNil(f.t, refusal)
	require.Empty(f.t, reply)
	require.Equal(f.t, want, refusal.Code, "%v", refusal)
	return refusal
}

const (
	rpm       = `{"name":"rpm","capacity":100,"refill_amount":100,"refill_period_seconds":60}`
	tpm       = `{"name":"tpm","capacity":20000,"refill_amount":10000,"refill_period_seconds":60}`
	setSystem = `{"system":true,"limits":[` + rpm + `]}`
)

func TestTheVerbs(t *testing.T) {
	f := newFixture(t)
	f.refuse(api.VerbLimitsGet, `{"resource":"gpt-4"}`, api.CodeNotFound)
	f.refuse(api.VerbLimitsDelete, `{"resource":"gpt-4"}`, api.CodeNotFound)
	f.refuse(api.VerbLimitsResolve, `{"entity":"alice","resource":"gpt-4"}`, api.CodeNoLimits)
	f.do(api.VerbLimitsList, `{}`, `{"levels":[]}`)
	f.do(api.VerbCapacity, `{"resource":"gpt-4"}`, `{"totals":[],"entities":[]}`)
	f.do(api.VerbBucketGet, `{"entity":"alice","resource":"gpt-4"}`, `{"at_ms":1736689600000,"wanted":1,"shards":[]}`)
	f.do(api.VerbBucketReset, `{"entity":"alice","resource":"gpt-4"}`, `{"shards":0}`)
	f.do(api.VerbAuditList, `{"entity":"alice"}`, `{"events":[]}`)
	f.do(api.VerbUsageList, `{"entity":"alice"}`, `{"snapshots":[]}`)
	f.do(api.VerbUsageSummary, `{"entity":"alice","window":"daily"}`, `{"totals":[]}`)
	require.Empty(t, f.broadcasts)

	resource := `{"resource":"gpt-4","limits":[` + rpm + `,` + tpm + `],"on_unavailable":"allow","config_version":1}`
	f.do(api.VerbLimitsSet, `{"resource":"gpt-4","limits":[`+tpm+`,`+rpm+`],"on_unavailable":"allow"}`, resource)
	f.do(api.VerbLimitsGet, `{"resource":"gpt-4"}`, resource)
	system := `{"system":true,"limits":[` + rpm + `],"config_version":1}`
	f.do(api.VerbLimitsSet, setSystem, system)
	f.do(api.VerbLimitsList, `{}`, `{"levels":[`+system+`,`+resource+`]}`)
	f.do(api.VerbLimitsResolve, `{"entity":"alice","resource":"gpt-4"}`,
		`{"winner":{"resource":"gpt-4"},"limits":[`+rpm+`,`+tpm+`],"on_unavailable":"allow","levels":[`+resource+`,`+system+`]}`)
	f.do(api.VerbLimitsResolve, `{"entity":"alice","resource":"gpt-5"}`,
		`{"winner":{"system":true},"limits":[`+rpm+`],"on_unavailable":"block","levels":[`+system+`]}`)

	f.do(api.VerbLimitsDelete, `{"resource":"gpt-4"}`, `{"deleted":true}`)
	// The winner stands first, also before a level that would win if it had limits.
	left := `{"resource":"gpt-4","limits":[],"on_unavailable":"allow","config_version":2}`
	f.do(api.VerbLimitsResolve, `{"entity":"alice","resource":"gpt-4"}`,
		`{"winner":{"system":true},"limits":[`+rpm+`],"on_unavailable":"allow","levels":[`+system+`,`+left+`]}`)

	require.Equal(t, []message{
		{"tidegate.config.v1.tenant-a", api.LimitsTarget{Resource: "gpt-4"}},
		{"tidegate.config.v1.tenant-a", api.LimitsTarget{System: true}},
		{"tidegate.config.v1.tenant-a", api.LimitsTarget{Resource: "gpt-4"}},
	}, f.broadcasts)
	require.Empty(t, f.log.String(), "what is the caller's doing is no news")
}

func TestListGoesOnByItsCursor(t *testing.T) {
	f := newFixture(t)
	for _, resource := range []string{"a", "b", "c"} {
		_, refusal := f.handle(api.VerbLimitsSet, `{"entity":"alice","resource":"`+resource+`","limits":[`+rpm+`]}`)
		require.Nil(t, refusal)
	}
	var found []string
	request := `{"entity":"alice","limit":2}`
	for request != "" {
		body, refusal := f.handle(api.VerbLimitsList, request)
		require.Nil(t, refusal)
		var reply api.LimitsListReply
		require.NoError(t, json.Unmarshal([]byte(body), &reply))
		for _, level := range reply.Levels {
			found = append(found, level.Resource)
		}
		if request = ""; reply.Cursor != "" {
			request = `{"entity":"alice","limit":2,"cursor":"` + reply.Cursor + `"}`
		}
	}
	require.Equal(t, []string{"a", "b", "c"}, found)
}

func TestServesItsVerbsAlone(t *testing.T) {
	f := newFixture(t)
	served := 0
	for _, v := range api.Verbs() {
		isAdmin := strings.HasPrefix(string(v), "admin.")
		require.Equal(t, isAdmin, f.admin.Serves(v), "%s", v)
		if isAdmin {
			served++
			continue
		}
		f.refuse(v, `{}`, api.CodeUnknownVerb)
	}
	require.Equal(t, 30, served)
	f.refuse("admin.limits.guess", `{}`, api.CodeUnknownVerb)
}

func TestBadRequestsChangeNothing(t *testing.T) {
	limitsOf := func(inner string) string { return `{"system":true,"limits":[` + inner + `]}` }
	for name, c := range map[string]struct {
		verb  api.Verb
		body  string
		code  api.Code
		field string
	}{
		"no JSON":          {api.VerbLimitsSet, `{`, api.CodeMalformedJSON, ""},
		"unknown field":    {api.VerbLimitsSet, `{"system":true,"limit":[]}`, api.CodeUnknownField, "limit"},
		"no level":         {api.VerbLimitsSet, `{"limits":[` + rpm + `]}`, api.CodeMissingField, ""},
		"no limits":        {api.VerbLimitsSet, `{"system":true}`, api.CodeMissingField, "limits"},
		"reserved":         {api.VerbLimitsSet, limitsOf(strings.Replace(rpm, "rpm", "wcu", 1)), api.CodeInvalidLimitName, "limits[0].name"},
		"negative":         {api.VerbLimitsSet, limitsOf(strings.Replace(rpm, `"capacity":100`, `"capacity":-1`, 1)), api.CodeInvalidLimit, "limits[0].capacity"},
		"fraction":         {api.VerbLimitsSet, limitsOf(strings.Replace(rpm, `"capacity":100`, `"capacity":1.5`, 1)), api.CodeInvalidLimit, "limits[0].capacity"},
		"too fast":         {api.VerbLimitsSet, limitsOf(strings.Replace(rpm, `"refill_amount":100`, `"refill_amount":200000000`, 1)), api.CodeInvalidLimit, "limits[0].refill_amount"},
		"twice":            {api.VerbLimitsSet, limitsOf(rpm + "," + rpm), api.CodeInvalidLimit, "limits[1].name"},
		"bad policy":       {api.VerbLimitsSet, `{"system":true,"limits":[` + rpm + `],"on_unavailable":"x"}`, api.CodeInvalidPolicy, "on_unavailable"},
		"too large":        {api.VerbLimitsSet, `{"system":true,"limits":[]}` + strings.Repeat(" ", api.MaxPayload), api.CodePayloadTooLarge, ""},
		"get no level":     {api.VerbLimitsGet, `{}`, api.CodeMissingField, ""},
		"delete a lot":     {api.VerbLimitsDelete, `{"system":true,"entity":"alice"}`, api.CodeUnknownField, "system"},
		"bad page":         {api.VerbLimitsList, `{"limit":0}`, api.CodeInvalidAmount, "limit"},
		"bad cursor":       {api.VerbLimitsList, `{"cursor":"x"}`, api.CodeInvalidCursor, "cursor"},
		"no policy":        {api.VerbPolicySet, `{"system":true}`, api.CodeMissingField, ""},
		"odd policy":       {api.VerbPolicySet, `{"system":true,"on_unavailable":"perhaps"}`, api.CodeInvalidPolicy, "on_unavailable"},
		"kept for ever":    {api.VerbPolicySet, `{"system":true,"audit_retention_days":3651}`, api.CodeInvalidPolicy, "audit_retention_days"},
		"kept elsewhere":   {api.VerbPolicySet, `{"resource":"r","audit_retention_days":3}`, api.CodeUnknownField, "audit_retention_days"},
		"policy nowhere":   {api.VerbPolicyGet, `{}`, api.CodeMissingField, ""},
		"no name":          {api.VerbNamespaceCreate, `{}`, api.CodeMissingField, "name"},
		"bad name":         {api.VerbNamespaceDelete, `{"name":"A b"}`, api.CodeInvalidNamespace, "name"},
		"the registry":     {api.VerbNamespacePurge, `{"name":"_"}`, api.CodeInvalidNamespace, "name"},
		"the default":      {api.VerbNamespaceDelete, `{"name":"default"}`, api.CodeForbidden, "name"},
		"bad list":         {api.VerbNamespaceList, `{"cursor":"?"}`, api.CodeInvalidCursor, "cursor"},
		"key with a hat":   {api.VerbKeyRotate, `{"hat":1}`, api.CodeUnknownField, "hat"},
		"resolve nobody":   {api.VerbLimitsResolve, `{"resource":"gpt-4"}`, api.CodeMissingField, "entity"},
		"usage of whom":    {api.VerbUsageList, `{"resource":"gpt-4"}`, api.CodeMissingField, "entity"},
		"odd window":       {api.VerbUsageSummary, `{"entity":"alice","window":"weekly"}`, api.CodeInvalidWindow, "window"},
		"time runs back":   {api.VerbUsageList, `{"entity":"alice","from_ms":2,"to_ms":1}`, api.CodeInvalidTime, "to_ms"},
		"usage nowhere":    {api.VerbUsageList, `{"entity":"alice","cursor":"x"}`, api.CodeInvalidCursor, "cursor"},
		"capacity of what": {api.VerbCapacity, `{}`, api.CodeMissingField, "resource"},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t)
			require.Equal(t, c.field, f.refuse(c.verb, c.body, c.code).Field)
			require.Zero(t, f.Calls(""))
			require.Empty(t, f.broadcasts)
		})
	}
}

func TestALostReplyIsNotReportedWrongly(t *testing.T) {
	for name, lost := range map[string]fault.Fault{
		"failed":             fault.InternalError(),
		"failed but applied": fault.InternalErrorAfter(),
		"reply lost":         {Kind: fault.ReplyLost},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t)
			f.Fail("TransactWriteItems", lost)
			f.do(api.VerbLimitsSet, setSystem, `{"system":true,"limits":[`+rpm+`],"config_version":1}`)
			f.Fail("TransactWriteItems", lost)
			f.do(api.VerbLimitsDelete, `{"system":true}`, `{"deleted":true}`)
			require.Len(t, f.broadcasts, 2)
		})
	}
}

func TestAnUnknownOutcomeSaysSoAndIsBroadcast(t *testing.T) {
	f := newFixture(t)
	f.Fail("TransactWriteItems", fault.Fault{Kind: fault.ReplyLost})
	f.Fail("TransactWriteItems", slices.Repeat([]fault.Fault{{Kind: fault.Unreachable}}, 100)...)
	ctx := f.EndAt(t.Context(), "TransactWriteItems", 3, 0)
	_, refusal := f.admin.Handle(ctx, tenant(), api.VerbLimitsSet, []byte(setSystem))
	require.NotNil(t, refusal)
	require.Equal(t, api.CodeUnavailable, refusal.Code)
	require.Contains(t, refusal.Message, "outcome is unknown")
	require.Len(t, f.broadcasts, 1, "it was applied after all, and nodes must notice")
	require.Contains(t, f.log.String(), "operation error DynamoDB")
	require.NotContains(t, refusal.Message, "operation error")
}

func TestAnOutageIsUnavailable(t *testing.T) {
	f := newFixture(t)
	for _, v := range []struct {
		verb            api.Verb
		body, operation string
	}{
		{api.VerbLimitsSet, setSystem, "GetItem"},
		{api.VerbLimitsGet, `{"system":true}`, "GetItem"},
		{api.VerbLimitsDelete, `{"system":true}`, "GetItem"},
		{api.VerbLimitsList, `{}`, "GetItem"},
		{api.VerbLimitsResolve, `{"entity":"alice","resource":"gpt-4"}`, "BatchGetItem"},
		{api.VerbCapacity, `{"resource":"gpt-4"}`, "Query"},
		{api.VerbUsageList, `{"entity":"alice"}`, "Query"},
	} {
		f.Fail(v.operation, fault.Fault{Kind: fault.Unreachable})
		f.refuse(v.verb, v.body, api.CodeUnavailable)
	}
	require.Empty(t, f.broadcasts)
}

func TestAStoreThatHangsEndsWithTheRequest(t *testing.T) {
	f := newFixture(t)
	f.Fail("GetItem", fault.Fault{Kind: fault.ReplyHangs})
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	_, refusal := f.admin.Handle(ctx, tenant(), api.VerbLimitsGet, []byte(`{"system":true}`))
	require.NotNil(t, refusal)
	require.Equal(t, api.CodeDeadlineExceeded, refusal.Code)
}

func TestADamagedItemIsInternal(t *testing.T) {
	f := newFixture(t)
	f.handle(api.VerbLimitsSet, setSystem)
	_, err := f.Direct.UpdateItem(t.Context(), &dynamodb.UpdateItemInput{
		TableName: &f.Table, Key: table.KeyItem(keys.SystemConfig{Namespace: tenant().ID}.Key()),
		UpdateExpression:          aws.String("SET l_rpm_cp = :v"),
		ExpressionAttributeValues: table.Item{":v": &types.AttributeValueMemberS{Value: "many"}},
	})
	require.NoError(t, err)
	f.refuse(api.VerbLimitsGet, `{"system":true}`, api.CodeInternal)
	require.Contains(t, f.log.String(), "l_rpm_cp", "the log says what is wrong")
}

func TestAFailedBroadcastDoesNotUndoAChange(t *testing.T) {
	f := newFixture(t)
	f.publish = errors.New("nats: connection closed")
	f.do(api.VerbLimitsSet, setSystem, `{"system":true,"limits":[`+rpm+`],"config_version":1}`)
	require.Contains(t, f.log.String(), "not broadcast")
	require.Contains(t, f.log.String(), "nats: connection closed")
	f.do(api.VerbLimitsGet, `{"system":true}`, `{"system":true,"limits":[`+rpm+`],"config_version":1}`)
}

func TestAConflictIsTold(t *testing.T) {
	f := newFixture(t)
	other := config.NewLimitStore(f.Direct, f.Table, audit.NewLog(f.Direct, f.Table, f.Now))
	var interfere func()
	interfere = func() {
		_, err := other.Set(t.Context(), tenant().ID, api.Principal{}, api.LimitsSetRequest{
			LimitsTarget: api.LimitsTarget{System: true},
			Limits:       []api.Limit{{Name: "theirs", Capacity: 1, RefillAmount: 1, RefillPeriodSeconds: 1}},
		})
		require.NoError(t, err)
		f.Before("TransactWriteItems", interfere)
	}
	f.Before("TransactWriteItems", interfere)
	f.refuse(api.VerbLimitsSet, setSystem, api.CodeConflict)
}

// Where the senders of changes must be known, each verb that changes something refuses
// others, and each verb that only reads answers them.
func TestChangesNeedASender(t *testing.T) {
	f := newFixture(t)
	unnamed := func(c control.Caller) control.Caller {
		c.Named, c.By = true, api.Principal{User: "mallory"}
		return c
	}
	reads := []api.Verb{
		api.VerbLimitsGet, api.VerbLimitsList, api.VerbLimitsResolve, api.VerbCapacity, api.VerbBucketGet, api.VerbUsageList, api.VerbUsageSummary,
		api.VerbPolicyGet, api.VerbEntityGet, api.VerbEntityChildren, api.VerbEntityList, api.VerbAuditList, api.VerbAuditShow, api.VerbAuditVerify,
		api.VerbNamespaceList, api.VerbNamespaceGet, api.VerbKeyList,
	}
	bodies := map[api.Verb]string{
		api.VerbLimitsSet: setSystem, api.VerbLimitsDelete: `{"system":true}`, api.VerbPolicySet: `{"system":true,"on_unavailable":"allow"}`,
		api.VerbEntityCreate: `{"entity":"alice"}`, api.VerbEntityUpdate: `{"entity":"alice","cascade":true}`, api.VerbEntityDelete: `{"entity":"alice"}`,
		api.VerbBucketReset: `{"entity":"alice","resource":"gpt-4"}`,
	}
	for _, verb := range api.Verbs() {
		if !f.admin.Serves(verb) {
			continue
		}
		c, body := tenant(), bodies[verb]
		switch {
		case strings.HasPrefix(string(verb), "admin.namespace."):
			c, body = operators(), `{"name":"tenant-b"}`
		case verb == api.VerbKeyRevoke:
			c, body = operators(), `{"id":"AAAAAA"}`
		case verb.ForOperators():
			c, body = operators(), `{}`
		}
		if _, named := bodies[verb]; !named && body == "" {
			body = `{}`
		}
		_, refusal := f.admin.Handle(t.Context(), unnamed(c), verb, []byte(body))
		isRefused := refusal != nil && refusal.Code == api.CodeForbidden
		require.Equal(t, !slices.Contains(reads, verb), isRefused, "%s: %v", verb, refusal)
	}
	require.Empty(t, f.broadcasts)
	require.Empty(t, f.namespaces)
	f.do(api.VerbAuditList, `{}`, `{"events":[]}`)
	_, refusal := f.admin.Handle(t.Context(), control.Caller{Name: "tenant-a", ID: "AAAAAAAAAAA", By: api.Principal{User: "ops", Verified: true}, Named: true}, api.VerbLimitsSet, []byte(setSystem))
	require.Nil(t, refusal)
}
