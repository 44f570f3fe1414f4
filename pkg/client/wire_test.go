package tidegate_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/stretchr/testify/require"

	"github.com/tidegate/tidegate/pkg/api"
	tidegate "github.com/tidegate/tidegate/pkg/client"
)

// TestGoldenWire pins what every call sends.
func TestGoldenWire(t *testing.T) {
	w := newWire(t)
	level := `{"entity":"e","resource":"r","limits":[{"name":"rpm","capacity":10,"refill_amount":10,"refill_period_seconds":60}],"config_version":1}`
	entity := `{"entity":"e","parent":"acme","cascade":true,"version":1}`
	entityPage := `{"entities":[` + entity + `],"cursor":"next"}`
	event := `{"id":"1-2","namespace":"N","sequence":2,"at_ms":1,"target":"e","action":"limits.set","who":{"verified":false},"after":{},"key_id":"k","mac":"m"`
	w.script(map[api.Verb]string{
		api.VerbAcquire: admitted, api.VerbAcquireOverride: admitted,
		api.VerbAdjust: `{"lease":"L1","limits":[]}`, api.VerbRelease: `{"released":true}`,
		api.VerbStatus:    `{"allowed":true,"limits":[]}`,
		api.VerbLimitsSet: level, api.VerbLimitsGet: level, api.VerbLimitsDelete: `{"deleted":true}`,
		api.VerbEntityCreate: entity, api.VerbEntityGet: entity, api.VerbEntityUpdate: entity, api.VerbEntityDelete: `{"deleted":true}`,
		api.VerbEntityChildren: entityPage, api.VerbEntityList: entityPage,
		api.VerbAuditList: `{"events":[` + event + `}],"cursor":"next"}`, api.VerbAuditShow: event + `,"intact":true}`,
		api.VerbAuditVerify:   `{"checked":2,"findings":[{"kind":"missing","first":3,"last":4}],"cursor":"next"}`,
		api.VerbLimitsList:    `{"levels":[` + level + `],"cursor":"next"}`,
		api.VerbLimitsResolve: `{"winner":{"entity":"e","resource":"r"},"limits":[],"on_unavailable":"block","levels":[]}`,
		api.VerbBucketGet:     `{"at_ms":1,"wanted":1,"shards":[{"shard":0,"level":1,"write_units":7,"limits":[]}]}`,
		api.VerbBucketReset:   `{"shards":1}`,
		api.VerbUsageList:     `{"snapshots":[{"resource":"r","window":"daily","start_ms":1,"end_ms":2,"acquires":3,"limits":[{"name":"rpm","used":3}]}],"cursor":"next"}`,
		api.VerbUsageSummary:  `{"totals":[{"resource":"r","name":"rpm","windows":1,"used":3,"average":3,"peak":3,"peak_start_ms":1}]}`,
	})
	c := w.client(tidegate.WithNamespace("tenant-a"), tidegate.WithTimeout(1500*time.Millisecond), tidegate.WithOnUnavailable(tidegate.Block))
	ctx := t.Context()
	rpm := tidegate.Limit{Name: "rpm", Capacity: 10, RefillAmount: 10, RefillPeriodSeconds: 60}

	lease, err := c.Acquire(ctx, "e", "r", tidegate.Consume{"tpm": 500, "rpm": 1, "daily": 0})
	require.NoError(t, err)
	require.NoError(t, lease.Adjust(ctx, tidegate.Deltas{"tpm": -200, "rpm": 1}))
	require.NoError(t, lease.Release(ctx))
	_, err = c.Acquire(ctx, "e", "r", one, tidegate.OnUnavailable(tidegate.Allow), tidegate.OverrideLimits(rpm))
	require.NoError(t, err)
	_, err = c.Status(ctx, "e", "", nil)
	require.NoError(t, err)
	status, err := c.Status(ctx, "e", "r", one)
	require.NoError(t, err)
	require.True(t, *status.Allowed)

	own := api.LimitsTarget{Entity: "e", Resource: "r"}
	set, err := c.Admin().SetLimits(ctx, api.LimitsSetRequest{LimitsTarget: own, Limits: []tidegate.Limit{rpm}})
	require.NoError(t, err)
	require.Equal(t, api.LimitsLevel{LimitsTarget: own, Limits: []tidegate.Limit{rpm}, Version: 1}, set)
	got, err := c.Admin().GetLimits(ctx, own)
	require.NoError(t, err)
	require.Equal(t, set, got)
	require.NoError(t, c.Admin().DeleteLimits(ctx, api.LimitsDeleteRequest{LimitsTarget: api.LimitsTarget{System: true}}))
	page, err := c.Admin().ListLimits(ctx, api.LimitsListRequest{Cursor: "here", Limit: 10})
	require.NoError(t, err)
	require.Equal(t, api.LimitsListReply{Levels: []api.LimitsLevel{set}, Cursor: "next"}, page)
	resolved, err := c.Admin().ResolveLimits(ctx, "e", "r")
	require.NoError(t, err)
	require.Equal(t, own, resolved.Winner)

	requireEntities(t, c.Admin())
	requireAudit(t, c.Admin())
	stored, err := c.Admin().Bucket(ctx, "e", "r")
	require.NoError(t, err)
	require.EqualValues(t, 7, stored.Shards[0].WriteUnits)
	shards, err := c.Admin().ResetBucket(ctx, "e", "r")
	require.NoError(t, err)
	require.EqualValues(t, 1, shards)
	used, err := c.Admin().Usage(ctx, api.UsageRequest{Entity: "e", Resource: "r", Window: api.WindowDaily, FromMs: 1, ToMs: 2, Limit: 10})
	require.NoError(t, err)
	require.Equal(t, "next", used.Cursor)
	require.Equal(t, []api.LimitUsage{{Name: "rpm", Used: 3}}, used.Snapshots[0].Limits)
	summary, err := c.Admin().UsageSummary(ctx, api.UsageRequest{Entity: "e"})
	require.NoError(t, err)
	require.EqualValues(t, 3, summary.Totals[0].Peak)

	w.requireGolden(t, "wire.txt")
}

// TestGoldenWireOfOperators pins what every call of an operator sends, and those
// on policies.
func TestGoldenWireOfOperators(t *testing.T) {
	w := newWire(t)
	tenant := `{"name":"tenant-a","id":"AAAAAAAAAAA","state":"active","created_ms":1}`
	key := `{"id":"AQIDBA","state":"next","created_ms":1,"signs_from_ms":2}`
	policy := `{"system":true,"on_unavailable":"allow","config_version":1}`
	w.script(map[api.Verb]string{
		api.VerbPolicySet: policy, api.VerbPolicyGet: policy,
		api.VerbNamespaceCreate: tenant, api.VerbNamespaceGet: tenant, api.VerbNamespaceDelete: tenant, api.VerbNamespaceRecover: tenant,
		api.VerbNamespaceList:  `{"namespaces":[` + tenant + `],"cursor":"next"}`,
		api.VerbNamespacePurge: `{"done":false,"deleted":500,"remaining":7}`,
		api.VerbKeyList:        `{"keys":[` + key + `]}`, api.VerbKeyRotate: key, api.VerbKeyRevoke: `{"revoked":` + key + `,"signing":` + key + `}`,
	})
	c, ctx := w.client(tidegate.WithNamespace("tenant-b"), tidegate.WithTimeout(1500*time.Millisecond)), t.Context()
	system := api.LimitsTarget{System: true}
	set, err := c.Admin().SetPolicy(ctx, api.PolicySetRequest{LimitsTarget: system, OnUnavailable: tidegate.Allow})
	require.NoError(t, err)
	require.Equal(t, api.PolicyLevel{LimitsTarget: system, OnUnavailable: tidegate.Allow, Version: 1}, set)
	got, err := c.Admin().GetPolicy(ctx, system)
	require.NoError(t, err)
	require.Equal(t, set, got)

	o := c.Operator()
	for _, call := range []func(context.Context, string) (api.Namespace, error){
		o.CreateNamespace, o.GetNamespace, o.DeleteNamespace, o.RecoverNamespace,
	} {
		n, err := call(ctx, "tenant-a")
		require.NoError(t, err)
		require.Equal(t, api.Namespace{Name: "tenant-a", ID: "AAAAAAAAAAA", State: api.NamespaceActive, CreatedMs: 1}, n)
	}
	page, err := o.ListNamespaces(ctx, api.NamespaceListRequest{Cursor: "here", Limit: 10})
	require.NoError(t, err)
	require.Equal(t, "next", page.Cursor)
	step, err := o.PurgeNamespace(ctx, "tenant-a")
	require.NoError(t, err)
	require.Equal(t, api.NamespacePurgeReply{Deleted: 500, Remaining: 7}, step)
	next, err := o.RotateLeaseKey(ctx)
	require.NoError(t, err)
	all, err := o.ListLeaseKeys(ctx)
	require.NoError(t, err)
	require.Equal(t, []api.LeaseKey{next}, all)
	gone, err := o.RevokeLeaseKey(ctx, "AAAAAA")
	require.NoError(t, err)
	require.Equal(t, api.LeaseKeyRevokeReply{Revoked: next, Signing: next}, gone)
	w.requireGolden(t, "wire_operators.txt")
}

// requireGolden compares what was sent with a file in testdata.
func (w *wire) requireGolden(t *testing.T, file string) {
	t.Helper()
	var b strings.Builder
	for _, m := range w.seen {
		require.True(t, strings.HasPrefix(m.Reply, api.InboxPrefix("default")+"."), m.Reply)
		// Settlements wait on a context of their own, so theirs is a little less.
		timeout := m.Header.Get(api.HeaderTimeout)
		if _, verb, _ := api.ParseSubject(m.Subject); verb == api.VerbAdjust || verb == api.VerbRelease {
			ms, err := strconv.Atoi(timeout)
			require.NoError(t, err)
			require.LessOrEqual(t, ms, 1500)
			timeout = "at most 1500"
		}
		fmt.Fprintf(&b, "%s\n  %s: %s\n  %s\n", m.Subject, api.HeaderTimeout, timeout, m.Data)
		requireDecodes(t, m)
	}
	if *update {
		require.NoError(t, os.MkdirAll("testdata", 0o755))
		require.NoError(t, os.WriteFile(filepath.Join("testdata", file), []byte(b.String()), 0o600))
	}
	want, err := os.ReadFile(filepath.Join("testdata", file))
	require.NoError(t, err, "run go test -update")
	require.Equal(t, string(want), b.String())
}

func requireEntities(t *testing.T, admin tidegate.Admin) {
	t.Helper()
	want := api.Entity{ID: "e", Parent: "acme", Cascade: true, Version: 1}
	made, err := admin.CreateEntity(t.Context(), api.EntityCreateRequest{ID: "e", Parent: "acme", Cascade: true})
	require.NoError(t, err)
	require.Equal(t, want, made)
	got, err := admin.GetEntity(t.Context(), "e")
	require.NoError(t, err)
	require.Equal(t, want, got)
	parent := "acme"
	changed, err := admin.UpdateEntity(t.Context(), api.EntityUpdateRequest{ID: "e", Parent: &parent, Metadata: map[string]string{}, Version: 1})
	require.NoError(t, err)
	require.Equal(t, want, changed)
	require.NoError(t, admin.DeleteEntity(t.Context(), api.EntityDeleteRequest{ID: "e", Orphan: true}))
	page := api.EntityListRequest{Cursor: "here", Limit: 10}
	children, err := admin.ListChildren(t.Context(), api.EntityChildrenRequest{ID: "acme", EntityListRequest: page})
	require.NoError(t, err)
	require.Equal(t, api.EntityListReply{Entities: []api.Entity{want}, Cursor: "next"}, children)
	all, err := admin.ListEntities(t.Context(), page)
	require.NoError(t, err)
	require.Equal(t, children, all)
}

func requireAudit(t *testing.T, admin tidegate.Admin) {
	t.Helper()
	page, err := admin.ListAudit(t.Context(), api.AuditListRequest{LimitsTarget: api.LimitsTarget{Entity: "e"}, Action: api.AuditLimitsSet, FromMs: 1, ToMs: 2, Limit: 10})
	require.NoError(t, err)
	require.Equal(t, "next", page.Cursor)
	shown, err := admin.ShowAudit(t.Context(), "1-2")
	require.NoError(t, err)
	require.True(t, shown.Intact)
	require.Equal(t, page.Events[0], shown.AuditEvent)
	part, err := admin.VerifyAudit(t.Context(), api.AuditVerifyRequest{FromMs: 1, ToMs: 2, Cursor: "before"})
	require.NoError(t, err)
	require.Equal(t, api.AuditVerifyReply{Checked: 2, Findings: []api.AuditFinding{{Kind: api.AuditMissing, First: 3, Last: 4}}, Cursor: "next"}, part)
}

// requireDecodes holds what the client sends against the decoders of services.
func requireDecodes(t *testing.T, m *nats.Msg) {
	t.Helper()
	_, verb, ok := api.ParseSubject(m.Subject)
	require.True(t, ok)
	var err error
	switch verb {
	case api.VerbAcquire, api.VerbAcquireOverride:
		_, err = api.DecodeAcquire(m.Data, verb == api.VerbAcquireOverride)
	case api.VerbAdjust:
		_, err = api.DecodeAdjust(m.Data)
	case api.VerbRelease:
		_, err = api.DecodeRelease(m.Data)
	case api.VerbStatus:
		_, err = api.DecodeStatus(m.Data)
	case api.VerbLimitsSet:
		_, err = api.DecodeRequest[api.LimitsSetRequest](m.Data)
	case api.VerbLimitsGet:
		_, err = api.DecodeRequest[api.LimitsGetRequest](m.Data)
	case api.VerbLimitsDelete:
		_, err = api.DecodeRequest[api.LimitsDeleteRequest](m.Data)
	case api.VerbLimitsList:
		_, err = api.DecodeRequest[api.LimitsListRequest](m.Data)
	case api.VerbLimitsResolve:
		_, err = api.DecodeRequest[api.LimitsResolveRequest](m.Data)
	case api.VerbEntityCreate:
		_, err = api.DecodeRequest[api.EntityCreateRequest](m.Data)
	case api.VerbEntityGet:
		_, err = api.DecodeRequest[api.EntityGetRequest](m.Data)
	case api.VerbEntityUpdate:
		_, err = api.DecodeRequest[api.EntityUpdateRequest](m.Data)
	case api.VerbEntityDelete:
		_, err = api.DecodeRequest[api.EntityDeleteRequest](m.Data)
	case api.VerbEntityChildren:
		_, err = api.DecodeRequest[api.EntityChildrenRequest](m.Data)
	case api.VerbEntityList:
		_, err = api.DecodeRequest[api.EntityListRequest](m.Data)
	case api.VerbAuditList:
		_, err = api.DecodeRequest[api.AuditListRequest](m.Data)
	case api.VerbAuditShow:
		_, err = api.DecodeRequest[api.AuditShowRequest](m.Data)
	case api.VerbAuditVerify:
		_, err = api.DecodeRequest[api.AuditVerifyRequest](m.Data)
	case api.VerbUsageList, api.VerbUsageSummary:
		_, err = api.DecodeRequest[api.UsageRequest](m.Data)
	case api.VerbBucketGet, api.VerbBucketReset:
		_, err = api.DecodeRequest[api.BucketRequest](m.Data)
	case api.VerbPolicySet:
		_, err = api.DecodeRequest[api.PolicySetRequest](m.Data)
	case api.VerbPolicyGet:
		_, err = api.DecodeRequest[api.PolicyGetRequest](m.Data)
	case api.VerbNamespaceList:
		_, err = api.DecodeRequest[api.NamespaceListRequest](m.Data)
	case api.VerbNamespaceCreate, api.VerbNamespaceGet, api.VerbNamespaceDelete, api.VerbNamespaceRecover, api.VerbNamespacePurge:
		_, err = api.DecodeRequest[api.NamespaceRequest](m.Data)
	case api.VerbKeyList, api.VerbKeyRotate:
		_, err = api.DecodeRequest[struct{}](m.Data)
	case api.VerbKeyRevoke:
		_, err = api.DecodeRequest[api.LeaseKeyRevokeRequest](m.Data)
	default:
		t.Fatalf("the client has a verb %s that this test does not know", verb)
	}
	require.NoError(t, err, "%s %s", m.Subject, m.Data)
}
