package config_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tidegate/tidegate/engine/fault"
	"github.com/tidegate/tidegate/internal/config"
	"github.com/tidegate/tidegate/pkg/api"
	"github.com/tidegate/tidegate/pkg/keys"
)

func system() api.LimitsTarget { return api.LimitsTarget{System: true} }

func policy(where api.LimitsTarget, p api.Policy) api.PolicySetRequest {
	return api.PolicySetRequest{LimitsTarget: where, OnUnavailable: p}
}

func retention(days int64) api.PolicySetRequest {
	return api.PolicySetRequest{LimitsTarget: system(), AuditRetentionDays: &days}
}

func TestAPolicyIsStoredAtEveryLevel(t *testing.T) {
	for _, where := range inOrder() {
		f := newLimitFixture(t)
		_, err := f.store.Policy(t.Context(), ns, where)
		requireCode(t, api.CodeNotFound, err)
		set := func(p api.Policy, want api.PolicyLevel) {
			t.Helper()
			want.LimitsTarget = where
			for range 2 { // a repeat changes nothing
				got, err := f.store.SetPolicy(t.Context(), ns, by(), policy(where, p))
				require.NoError(t, err)
				require.Equal(t, want, got)
			}
		}
		set(api.PolicyUnset, api.PolicyLevel{})
		set(api.PolicyAllow, api.PolicyLevel{OnUnavailable: api.PolicyAllow, Version: 1})
		got, err := f.store.Policy(t.Context(), ns, where)
		require.NoError(t, err)
		require.Equal(t, api.PolicyAllow, got.OnUnavailable)
		set(api.PolicyBlock, api.PolicyLevel{OnUnavailable: api.PolicyBlock, Version: 2})

		f.set(where, limit("rpm", 7))
		set(api.PolicyUnset, api.PolicyLevel{Version: 4})
		require.Equal(t, []api.Limit{limit("rpm", 7)}, f.get(where).Limits, "limits do not go with the policy")
		_, err = f.store.Policy(t.Context(), ns, where)
		requireCode(t, api.CodeNotFound, err)
		require.NoError(t, f.store.Delete(t.Context(), ns, by(), api.LimitsDeleteRequest{LimitsTarget: where}))
		_, err = f.store.Get(t.Context(), ns, where)
		requireCode(t, api.CodeNotFound, err)
	}
}

func TestPoliciesDoNotTouchEachOther(t *testing.T) {
	f := newLimitFixture(t)
	key := keys.SystemConfig{Namespace: ns}
	set := func(req api.PolicySetRequest) api.PolicyLevel {
		t.Helper()
		level, err := f.store.SetPolicy(t.Context(), ns, by(), req)
		require.NoError(t, err)
		return level
	}
	set(policy(system(), api.PolicyAllow))
	require.Equal(t, api.PolicyLevel{LimitsTarget: system(), OnUnavailable: api.PolicyAllow, AuditRetentionDays: 30, Version: 2}, set(retention(30)))
	f.set(system(), limit("rpm", 7))
	require.NoError(t, f.store.Delete(t.Context(), ns, by(), api.LimitsDeleteRequest{LimitsTarget: system()}))
	level := f.get(system())
	require.Equal(t, api.PolicyAllow, level.OnUnavailable, "kept when limits change or go")
	require.EqualValues(t, 30, level.AuditRetentionDays)

	require.EqualValues(t, 30, set(policy(system(), api.PolicyUnset)).AuditRetentionDays)
	f.attribute(key, "of_a_later_release", text("x"))
	require.Zero(t, set(retention(0)).AuditRetentionDays)
	require.Equal(t, text("x"), f.item(key)["of_a_later_release"])
}

func TestNothingIsLeftOfALevelWithoutSettings(t *testing.T) {
	f := newLimitFixture(t)
	for _, where := range inOrder() {
		_, err := f.store.SetPolicy(t.Context(), ns, by(), policy(where, api.PolicyAllow))
		require.NoError(t, err)
		level, err := f.store.SetPolicy(t.Context(), ns, by(), policy(where, api.PolicyUnset))
		require.NoError(t, err)
		require.Equal(t, api.PolicyLevel{LimitsTarget: where}, level)
		_, err = f.store.Get(t.Context(), ns, where)
		requireCode(t, api.CodeNotFound, err)
	}
}

func TestExplainShowsPolicies(t *testing.T) {
	f := newLimitFixture(t)
	f.set(system(), limit("rpm", 7))
	for _, req := range []api.PolicySetRequest{
		retention(30), policy(system(), api.PolicyBlock), policy(api.LimitsTarget{Entity: "alice"}, api.PolicyAllow),
	} {
		_, err := f.store.SetPolicy(t.Context(), ns, by(), req)
		require.NoError(t, err)
	}
	x, err := f.store.Explain(t.Context(), ns, "alice", "gpt-4")
	require.NoError(t, err)
	require.Equal(t, api.PolicyAllow, x.OnUnavailable, "of the entity, whose level has no limits")
	require.Equal(t, config.LevelSystem, x.Level)
	require.EqualValues(t, 30, x.Levels[config.LevelSystem].AuditRetentionDays)
	require.Equal(t, api.PolicyAllow, x.Levels[config.LevelEntity].OnUnavailable)
	other, err := f.store.Explain(t.Context(), ns, "bob", "gpt-4")
	require.NoError(t, err)
	require.Equal(t, api.PolicyBlock, other.OnUnavailable)
}

func TestBadPoliciesAreRefusedBeforeAnyIO(t *testing.T) {
	f := newLimitFixture(t)
	days := int64(30)
	for _, c := range []struct {
		req   api.PolicySetRequest
		code  api.Code
		field string
	}{
		{api.PolicySetRequest{OnUnavailable: api.PolicyAllow}, api.CodeMissingField, ""},
		{policy(system(), ""), api.CodeMissingField, ""},
		{policy(system(), "perhaps"), api.CodeInvalidPolicy, "on_unavailable"},
		{retention(-1), api.CodeInvalidPolicy, "audit_retention_days"},
		{retention(3651), api.CodeInvalidPolicy, "audit_retention_days"},
		{api.PolicySetRequest{LimitsTarget: target(), AuditRetentionDays: &days}, api.CodeUnknownField, "audit_retention_days"},
		{policy(api.LimitsTarget{Entity: "a\tb"}, api.PolicyAllow), api.CodeInvalidEntity, "entity"},
	} {
		_, err := f.store.SetPolicy(t.Context(), ns, by(), c.req)
		require.Equal(t, c.field, requireCode(t, c.code, err).Field)
	}
	_, err := f.store.Policy(t.Context(), ns, api.LimitsTarget{})
	requireCode(t, api.CodeMissingField, err)
	require.Zero(t, f.Calls(""))
}

// Every form of the change is tried with every outcome: it is made once, and a
// lost reply is not reported wrongly.
func TestAPolicyThroughEveryFault(t *testing.T) {
	for name, lost := range map[string]fault.Fault{
		"failed":             fault.InternalError(),
		"failed but applied": fault.InternalErrorAfter(),
		"reply lost":         {Kind: fault.ReplyLost},
		"unreachable":        {Kind: fault.Unreachable},
		"refused":            fault.TransactionCanceled("TransactionConflict", "None", "None"),
		"throttled":          fault.Throttling(fault.Reason{Reason: fault.TableWriteKeyRange}),
	} {
		t.Run(name, func(t *testing.T) {
			f := newLimitFixture(t)
			for i, p := range []api.Policy{api.PolicyAllow, api.PolicyBlock} {
				f.Fail("TransactWriteItems", lost)
				level, err := f.store.SetPolicy(t.Context(), ns, by(), policy(system(), p))
				require.NoError(t, err)
				require.Equal(t, api.PolicyLevel{LimitsTarget: system(), OnUnavailable: p, Version: int64(i + 1)}, level)
			}
			f.Fail("TransactWriteItems", lost)
			level, err := f.store.SetPolicy(t.Context(), ns, by(), policy(system(), api.PolicyUnset))
			require.NoError(t, err)
			require.Equal(t, api.PolicyLevel{LimitsTarget: system()}, level)
			require.Empty(t, f.item(keys.SystemConfig{Namespace: ns}))
		})
	}
}

// Limits that another node sets at the same moment are not lost.
func TestAPolicyAndLimitsAtTheSameTime(t *testing.T) {
	f := newLimitFixture(t)
	f.Before("TransactWriteItems", func() { f.set(system(), limit("rpm", 7)) })
	level, err := f.store.SetPolicy(t.Context(), ns, by(), policy(system(), api.PolicyAllow))
	require.NoError(t, err)
	require.EqualValues(t, 2, level.Version)
	require.Equal(t, []api.Limit{limit("rpm", 7)}, f.get(system()).Limits)
	f.Before("TransactWriteItems", func() { f.set(target(), limit("rpm", 9)) })
	_, err = f.store.SetPolicy(t.Context(), ns, by(), policy(target(), api.PolicyAllow))
	require.NoError(t, err)
	_, err = f.store.SetPolicy(t.Context(), ns, by(), policy(target(), api.PolicyUnset))
	require.NoError(t, err)
	require.Equal(t, []api.Limit{limit("rpm", 9)}, f.get(target()).Limits)
}
