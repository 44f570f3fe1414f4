package control_test

import (
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tidegate/tidegate/engine/fault"
	"github.com/tidegate/tidegate/pkg/api"
)

func (f *fixture) namespace(v api.Verb) api.Namespace {
	f.t.Helper()
	body, refusal := f.handle(v, `{"name":"tenant-b"}`)
	require.Nil(f.t, refusal)
	var n api.Namespace
	require.NoError(f.t, json.Unmarshal([]byte(body), &n))
	return n
}

func TestNamespaceVerbs(t *testing.T) {
	f := newFixture(t)
	created := f.namespace(api.VerbNamespaceCreate)
	require.Equal(t, api.Namespace{Name: "tenant-b", ID: created.ID, State: api.NamespaceActive, CreatedMs: 1_772_366_400_000}, created)
	require.Equal(t, created, f.namespace(api.VerbNamespaceGet))
	f.refuse(api.VerbNamespaceCreate, `{"name":"tenant-b"}`, api.CodeAlreadyExists)
	f.refuse(api.VerbNamespacePurge, `{"name":"tenant-b"}`, api.CodeConflict)
	require.Equal(t, api.NamespaceDeleted, f.namespace(api.VerbNamespaceDelete).State)
	require.Equal(t, created, f.namespace(api.VerbNamespaceRecover))
	f.namespace(api.VerbNamespaceDelete)
	var list api.NamespaceListReply
	body, refusal := f.handle(api.VerbNamespaceList, `{}`)
	require.Nil(t, refusal)
	require.NoError(t, json.Unmarshal([]byte(body), &list))
	require.Len(t, list.Namespaces, 1)
	f.do(api.VerbNamespacePurge, `{"name":"tenant-b"}`, `{"done":true,"deleted":0,"remaining":0}`)
	require.Equal(t, []string{"tenant-b", "tenant-b", "tenant-b", "tenant-b", "tenant-b"}, f.namespaces)
	require.NotEqual(t, created.ID, f.namespace(api.VerbNamespaceCreate).ID)
	require.Empty(t, f.log.String(), "what is the caller's doing is no news")
}

// What is for operators is not to be had by a tenant, and the other way round.
func TestOperatorsAndTenantsDoNotMeet(t *testing.T) {
	f := newFixture(t)
	for _, v := range api.Verbs() {
		if !f.admin.Serves(v) || strings.HasPrefix(string(v), "admin.audit.") { // those are everybody's
			continue
		}
		ns := operators()
		if v.ForOperators() {
			ns = tenant()
		}
		_, refusal := f.admin.Handle(t.Context(), ns, v, []byte(`{}`))
		require.NotNil(t, refusal)
		require.Equal(t, api.CodeUnknownVerb, refusal.Code, "%s", v)
	}
	require.Zero(t, f.Calls(""))
}

func TestPolicyVerbs(t *testing.T) {
	f := newFixture(t)
	f.refuse(api.VerbPolicyGet, `{"system":true}`, api.CodeNotFound)
	both := `{"system":true,"on_unavailable":"allow","audit_retention_days":30,"config_version":1}`
	f.do(api.VerbPolicySet, `{"system":true,"on_unavailable":"allow","audit_retention_days":30}`, both)
	f.do(api.VerbPolicyGet, `{"system":true}`, both)
	f.do(api.VerbPolicySet, `{"system":true,"on_unavailable":"unset"}`, `{"system":true,"audit_retention_days":30,"config_version":2}`)
	f.do(api.VerbPolicySet, `{"system":true,"audit_retention_days":0}`, `{"system":true,"config_version":0}`)
	require.Len(t, f.broadcasts, 3)
}

func TestKeyVerbs(t *testing.T) {
	f := newFixture(t)
	f.do(api.VerbAuditList, `{}`, `{"events":[]}`)
	body, refusal := f.handle(api.VerbKeyRotate, `{}`)
	require.Nil(t, refusal)
	var next api.LeaseKey
	require.NoError(t, json.Unmarshal([]byte(body), &next))
	body, refusal = f.handle(api.VerbKeyList, `{}`)
	require.Nil(t, refusal)
	var list api.LeaseKeyListReply
	require.NoError(t, json.Unmarshal([]byte(body), &list))
	require.Len(t, list.Keys, 2)
	require.Contains(t, list.Keys, next)
}

func TestAnUnknownOutcomeOfANamespaceIsBroadcast(t *testing.T) {
	f := newFixture(t)
	f.Fail("TransactWriteItems", slices.Repeat([]fault.Fault{{Kind: fault.ReplyLost}}, 50)...)
	refusal := f.refuse(api.VerbNamespaceCreate, `{"name":"tenant-b"}`, api.CodeUnavailable)
	require.Contains(t, refusal.Message, "outcome is unknown")
	require.Equal(t, []string{"tenant-b"}, f.namespaces)
}

func TestWithoutATimeNothingIsChanged(t *testing.T) {
	f := newFixture(t)
	f.clock = errors.New("the clock is skewed")
	f.refuse(api.VerbNamespaceCreate, `{"name":"tenant-b"}`, api.CodeUnavailable)
	f.refuse(api.VerbKeyRotate, `{}`, api.CodeUnavailable)
	require.Zero(t, f.Calls("TransactWriteItems")+f.Calls("PutItem"))
	require.Empty(t, f.namespaces)
}

func TestANamespacesBroadcastThatFailsIsLogged(t *testing.T) {
	f := newFixture(t)
	f.publish = errors.New("nats: connection closed")
	f.namespace(api.VerbNamespaceCreate)
	require.Contains(t, f.log.String(), "not broadcast")
}

// Operators read the events of what they changed where it belongs to.
func TestOperatorsChangesAreAudited(t *testing.T) {
	f := newFixture(t)
	f.namespace(api.VerbNamespaceCreate)
	f.namespace(api.VerbNamespaceDelete)
	body, refusal := f.admin.Handle(t.Context(), operators(), api.VerbAuditList, []byte(`{}`))
	require.Nil(t, refusal)
	var list api.AuditListReply
	require.NoError(t, json.Unmarshal(body, &list))
	require.Len(t, list.Events, 2)
	for i, action := range []api.AuditAction{api.AuditNamespaceDelete, api.AuditNamespaceCreate} {
		require.Equal(t, action, list.Events[i].Action)
		require.Equal(t, "$NAMESPACE:tenant-b", list.Events[i].Target)
		require.Equal(t, operators().By, list.Events[i].Who)
	}
	f.do(api.VerbAuditList, `{}`, `{"events":[]}`)
}
