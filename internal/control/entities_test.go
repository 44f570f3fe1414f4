package control_test

import (
	"encoding/json"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tidegate/tidegate/engine/fault"
	"github.com/tidegate/tidegate/internal/control"
	"github.com/tidegate/tidegate/pkg/api"
)

func TestTheVerbsOfEntities(t *testing.T) {
	f := newFixture(t)
	f.refuse(api.VerbEntityGet, `{"entity":"alice"}`, api.CodeNotFound)
	f.do(api.VerbEntityCreate, `{"entity":"acme","metadata":{"plan":"gold"}}`, `{"entity":"acme","metadata":{"plan":"gold"},"version":1}`)
	alice := `{"entity":"alice","parent":"acme","cascade":true,"version":1}`
	f.do(api.VerbEntityCreate, `{"entity":"alice","parent":"acme","cascade":true}`, alice)
	f.refuse(api.VerbEntityCreate, `{"entity":"alice"}`, api.CodeAlreadyExists)
	f.do(api.VerbEntityGet, `{"entity":"alice"}`, alice)
	f.do(api.VerbEntityChildren, `{"entity":"acme"}`, `{"entities":[`+alice+`]}`)
	f.do(api.VerbEntityUpdate, `{"entity":"alice","name":"Alice","parent":"","version":1}`, `{"entity":"alice","name":"Alice","version":2}`)
	f.refuse(api.VerbEntityUpdate, `{"entity":"alice","name":"Al","version":1}`, api.CodeConflict)
	f.do(api.VerbEntityDelete, `{"entity":"acme"}`, `{"deleted":true}`)
	f.do(api.VerbEntityList, `{}`, `{"entities":[{"entity":"alice","name":"Alice","version":2}]}`)
	var told []string
	for _, m := range f.broadcasts {
		require.Equal(t, api.LimitsTarget{Entity: m.target.Entity}, m.target, "all levels of the entity")
		told = append(told, m.target.Entity)
	}
	require.Equal(t, []string{"acme", "alice", "alice", "acme"}, told, "what was refused is no news")

	body, refusal := f.handle(api.VerbAuditList, `{"entity":"alice","limit":1}`)
	require.Nil(t, refusal)
	var page api.AuditListReply
	require.NoError(t, json.Unmarshal([]byte(body), &page))
	require.Len(t, page.Events, 1)
	require.NotEmpty(t, page.Cursor)
	require.Equal(t, tenant().By, page.Events[0].Who)
	require.Equal(t, tenant().ID, page.Events[0].Namespace)
	body, refusal = f.handle(api.VerbAuditShow, `{"id":"`+page.Events[0].ID+`"}`)
	require.Nil(t, refusal)
	require.Contains(t, body, `"intact":true`)
	f.refuse(api.VerbAuditShow, `{"id":"1-1"}`, api.CodeNotFound)
}

func TestAnEntityThatMayHaveChangedIsBroadcast(t *testing.T) {
	f := newFixture(t)
	f.Fail("TransactWriteItems", fault.Fault{Kind: fault.ReplyLost})
	f.Fail("TransactWriteItems", slices.Repeat([]fault.Fault{{Kind: fault.Unreachable}}, 100)...)
	ctx := f.EndAt(t.Context(), "TransactWriteItems", 3, 0)
	_, refusal := f.admin.Handle(ctx, tenant(), api.VerbEntityCreate, []byte(`{"entity":"alice"}`))
	require.NotNil(t, refusal)
	require.Equal(t, api.CodeUnavailable, refusal.Code)
	require.Len(t, f.broadcasts, 1)
}

func TestPrincipalOf(t *testing.T) {
	long := `{"user":"` + string(slices.Repeat([]byte("x"), 257)) + `"}`
	for header, want := range map[string]api.Principal{
		"":                               {},
		"x":                              {},
		"{}":                             {},
		`{"user":1}`:                     {},
		long:                             {},
		`{"acc":"A","svc":"S"}`:          {Account: "A", Verified: true},
		`{"acc":"A","user":"u","rtt":1}`: {User: "u", Account: "A", Verified: true},
	} {
		require.Equal(t, want, control.PrincipalOf(header, true), "%.40s", header)
		want.Verified = false
		require.Equal(t, want, control.PrincipalOf(header, false), "%.40s", header)
	}
}
