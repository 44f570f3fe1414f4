package api_test

import (
	"bytes"
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tidegate/tidegate/pkg/api"
)

var update = flag.Bool("update", false, "write the golden files")

// message is one example of the contract. Requests have a decode that must give
// the value back from the golden JSON.
type message struct {
	file   string
	value  any
	decode func([]byte) (any, error)
}

// erased is a decoder without its type.
func erased[T any](decode func([]byte) (T, error)) func([]byte) (any, error) {
	return func(b []byte) (any, error) { return decode(b) }
}

func acquire(override bool) func([]byte) (any, error) {
	return func(b []byte) (any, error) { return api.DecodeAcquire(b, override) }
}

func plain[T any]() func([]byte) (any, error) {
	return func(b []byte) (any, error) {
		var v T
		err := json.Unmarshal(b, &v)
		return v, err
	}
}

func messages() []message {
	rpm := api.Limit{Name: "rpm", Capacity: 100, RefillAmount: 100, RefillPeriodSeconds: 60}
	tpm := api.Limit{Name: "tpm", Capacity: 20000, RefillAmount: 10000, RefillPeriodSeconds: 60}
	passed := api.LimitStatus{Entity: "api-key-123", Name: "rpm", Capacity: 100, Requested: 1, Available: 99}
	exceeded := api.LimitStatus{Entity: "api-key-123", Name: "rpm", Capacity: 100, Requested: 1, Exceeded: true, RetryAfterMs: 590}
	never := api.LimitStatus{Entity: "api-key-123", Name: "rpm", Capacity: 100, Requested: 101, Available: 100, Exceeded: true, RetryAfterMs: -1, Never: true}
	parent := exceeded
	parent.Entity, parent.Capacity = "team-7", 5
	everywhere := passed
	everywhere.Resource, everywhere.Requested = "gpt-4", 0
	one := api.Amounts{{Name: "rpm", Tokens: 1}}
	both := api.Amounts{{Name: "rpm", Tokens: 1}, {Name: "tpm", Tokens: 500}}
	own := api.LimitsTarget{Entity: "api-key-123", Resource: "gpt-4"}
	ownLevel := api.LimitsLevel{LimitsTarget: own, Limits: []api.Limit{rpm, tpm}, OnUnavailable: api.PolicyAllow, Version: 3}
	system := api.LimitsLevel{LimitsTarget: api.LimitsTarget{System: true}, Limits: []api.Limit{rpm}, Version: 1}
	managed := api.LimitsLevel{LimitsTarget: own, Limits: []api.Limit{rpm}, Manifest: "gateway", Version: 4}
	version := int64(3)
	yes, no, days := true, false, int64(30)
	tenant := api.Namespace{Name: "tenant-a", ID: "q83vASNFZ4k", State: api.NamespaceActive, CreatedMs: 1772366400000}
	deleted := api.Namespace{Name: "tenant-b", ID: "EjRWeJCrze8", State: api.NamespaceDeleted, CreatedMs: 1772366400000, DeletedMs: 1772452800000, DeletedBy: "alice"}
	key := api.LeaseKey{ID: "AQIDBA", State: api.LeaseKeyNext, CreatedMs: 1772366400000, SignsFromMs: 1772366520000}
	event := api.AuditEvent{
		ID: "1772366400000-42", Namespace: "AbCdEfGhIjI", Sequence: 42, AtMs: 1772366400000, Target: "api-key-123",
		Action: api.AuditLimitsSet, Who: api.Principal{User: "alice", Account: "OPS", Verified: true},
		After:    json.RawMessage(`{"entity":"api-key-123","resource":"gpt-4","limits":[],"config_version":1}`),
		Previous: "cHJldmlvdXM", Key: "AQIDBA", MAC: "bWFj",
	}
	archived := event
	archived.Deleted = &api.AuditDeletion{By: api.DeletedByTTL, AtMs: 1780142400000}
	entity := api.Entity{ID: "api-key-123", Name: "Alice's key", Parent: "acme", Cascade: true, Metadata: map[string]string{"team": "search"}, Version: 2}
	name, nobody := "Bob's key", ""

	return []message{
		{"acquire.request", api.AcquireRequest{Entity: "api-key-123", Resource: "gpt-4", Consume: both}, acquire(false)},
		{"acquire-policy.request", api.AcquireRequest{Entity: "api-key-123", Resource: "gpt-4", Consume: both, OnUnavailable: api.PolicyAllow}, acquire(false)},
		{"acquire-override.request", api.AcquireRequest{Entity: "api-key-123", Resource: "gpt-4", Consume: both, Limits: []api.Limit{rpm, tpm}}, acquire(true)},
		{"acquire-admitted.reply", api.AcquireReply{Allowed: true, Lease: "v1.k1.cGF5bG9hZA.bWFj", Limits: []api.LimitStatus{passed}}, erased(api.DecodeAcquireReply)},
		{"acquire-denied.reply", api.AcquireReply{RetryAfterMs: 590, Limits: []api.LimitStatus{exceeded}}, erased(api.DecodeAcquireReply)},
		{"acquire-levels.reply", api.AcquireReply{RetryAfterMs: 590, Limits: []api.LimitStatus{passed, parent}}, erased(api.DecodeAcquireReply)},
		{"acquire-never.reply", api.AcquireReply{RetryAfterMs: -1, Never: true, Limits: []api.LimitStatus{never}}, erased(api.DecodeAcquireReply)},
		{"acquire-degraded.reply", api.AcquireReply{Allowed: true, Degraded: true, Limits: []api.LimitStatus{}}, erased(api.DecodeAcquireReply)},
		{"adjust.request", api.AdjustRequest{Lease: "v1.k1.cGF5bG9hZA.bWFj", Deltas: api.Amounts{{Name: "tpm", Tokens: 1500}, {Name: "rpm", Tokens: -1}}}, erased(api.DecodeAdjust)},
		{"adjust.reply", api.AdjustReply{Lease: "v1.k1.bmV3ZXI.bWFj", Limits: []api.LimitStatus{passed}}, plain[api.AdjustReply]()},
		{"release.request", api.ReleaseRequest{Lease: "v1.k1.cGF5bG9hZA.bWFj"}, erased(api.DecodeRelease)},
		{"release.reply", api.ReleaseReply{Released: true}, plain[api.ReleaseReply]()},
		{"status.request", api.StatusRequest{Entity: "api-key-123"}, erased(api.DecodeStatus)},
		{"status-page.request", api.StatusRequest{Entity: "api-key-123", Cursor: "eyJzIjowfQ", Limit: 10}, erased(api.DecodeStatus)},
		{"status-consume.request", api.StatusRequest{Entity: "api-key-123", Resource: "gpt-4", Consume: one}, erased(api.DecodeStatus)},
		{"status.reply", api.StatusReply{Limits: []api.LimitStatus{everywhere}}, plain[api.StatusReply]()},
		{"status-page.reply", api.StatusReply{Limits: []api.LimitStatus{everywhere}, Cursor: "eyJzIjowfQ"}, plain[api.StatusReply]()},
		{"status-damaged.reply", api.StatusReply{Limits: []api.LimitStatus{everywhere}, Damaged: []string{"gpt-5"}}, plain[api.StatusReply]()},
		{"status-allowed.reply", api.StatusReply{Allowed: &yes, Limits: []api.LimitStatus{passed}}, plain[api.StatusReply]()},
		{"status-denied.reply", api.StatusReply{Allowed: &no, RetryAfterMs: 590, Limits: []api.LimitStatus{exceeded}}, plain[api.StatusReply]()},
		{"limits-set.request", api.LimitsSetRequest{LimitsTarget: own, Limits: []api.Limit{rpm, tpm}, OnUnavailable: api.PolicyAllow}, erased(api.DecodeRequest[api.LimitsSetRequest])},
		{"limits-set-system.request", api.LimitsSetRequest{LimitsTarget: api.LimitsTarget{System: true}, Limits: []api.Limit{rpm}}, erased(api.DecodeRequest[api.LimitsSetRequest])},
		{"limits-set-manifest.request", api.LimitsSetRequest{LimitsTarget: own, Limits: []api.Limit{rpm}, Manifest: "gateway", IfVersion: &version}, erased(api.DecodeRequest[api.LimitsSetRequest])},
		{"limits-level-manifest.reply", managed, plain[api.LimitsLevel]()},
		{"limits-get.request", api.LimitsGetRequest{LimitsTarget: api.LimitsTarget{Resource: "gpt-4"}}, erased(api.DecodeRequest[api.LimitsGetRequest])},
		{"limits-level.reply", ownLevel, plain[api.LimitsLevel]()},
		{"limits-delete.request", api.LimitsDeleteRequest{LimitsTarget: api.LimitsTarget{Entity: "api-key-123"}}, erased(api.DecodeRequest[api.LimitsDeleteRequest])},
		{"limits-delete-version.request", api.LimitsDeleteRequest{LimitsTarget: own, IfVersion: &version}, erased(api.DecodeRequest[api.LimitsDeleteRequest])},
		{"limits-delete.reply", api.LimitsDeleteReply{Deleted: true}, plain[api.LimitsDeleteReply]()},
		{"limits-list.request", api.LimitsListRequest{Cursor: "bmV4dA", Limit: 50}, erased(api.DecodeRequest[api.LimitsListRequest])},
		{"limits-list.reply", api.LimitsListReply{Levels: []api.LimitsLevel{ownLevel, system}, Cursor: "bmV4dA"}, plain[api.LimitsListReply]()},
		{"limits-resolve.request", api.LimitsResolveRequest{Entity: "api-key-123", Resource: "gpt-4"}, erased(api.DecodeRequest[api.LimitsResolveRequest])},
		{"limits-resolve.reply", api.LimitsResolveReply{Winner: own, Limits: ownLevel.Limits, OnUnavailable: api.PolicyAllow, Levels: []api.LimitsLevel{ownLevel, system}}, plain[api.LimitsResolveReply]()},
		{"capacity.request", api.CapacityRequest{Resource: "gpt-4", Cursor: "bmV4dA", Limit: 50}, erased(api.DecodeRequest[api.CapacityRequest])},
		{"capacity.reply", api.CapacityReply{
			Totals: api.CapacityTotals{{Name: "rpm", Entities: 2, Capacity: 200, Available: 75, Debt: 3, Exhausted: 1, InDebt: 1}},
			Entities: []api.EntityCapacity{
				{Entity: "api-key-123", Shards: 2, Limits: []api.LimitCapacity{{Name: "rpm", Capacity: 100, Available: 75}}},
				{Entity: "api-key-124", Shards: 1, Limits: []api.LimitCapacity{{Name: "rpm", Capacity: 100, Available: -3}}},
				{Entity: "api-key-125", Shards: 3, Limits: []api.LimitCapacity{}, Changing: true},
				{Entity: "api-key-126", Limits: []api.LimitCapacity{}, Damaged: true},
			},
			Cursor: "bmV4dA",
		}, plain[api.CapacityReply]()},
		{"bucket.request", api.BucketRequest{Entity: "api-key-123", Resource: "gpt-4"}, erased(api.DecodeRequest[api.BucketRequest])},
		{"bucket.reply", api.BucketReply{AtMs: 1772366400000, Wanted: 2, Shards: []api.BucketShard{
			{Shard: 0, Level: 2, WriteUnits: 4711, Limits: []api.LimitCapacity{{Name: "rpm", Capacity: 50, Available: -3}}},
			{Shard: 1, Level: 2, WriteUnits: 12, Limits: []api.LimitCapacity{{Name: "rpm", Capacity: 50, Available: 50}}},
		}, Limits: []api.LimitCapacity{{Name: "rpm", Capacity: 100, Available: 47}}}, plain[api.BucketReply]()},
		{"bucket-damaged.reply", api.BucketReply{AtMs: 1772366400000, Wanted: 1, Shards: []api.BucketShard{}, Damaged: []int64{0, 3}}, plain[api.BucketReply]()},
		{"bucket-reset.reply", api.BucketResetReply{Shards: 2}, plain[api.BucketResetReply]()},
		{"usage.request", api.UsageRequest{Entity: "api-key-123", Resource: "gpt-4", Window: api.WindowDaily, FromMs: 1772323200000, ToMs: 1772409599999, Cursor: "bmV4dA", Limit: 50}, erased(api.DecodeRequest[api.UsageRequest])},
		{"usage-list.reply", api.UsageListReply{
			Snapshots: []api.UsageSnapshot{
				{Resource: "gpt-4", Window: api.WindowHourly, StartMs: 1772366400000, EndMs: 1772370000000, Acquires: 12, Limits: []api.LimitUsage{{Name: "rpm", Used: 12}, {Name: "tpm", Used: 4800}}},
				{Resource: "gpt-4", Override: "k3J9x1QaZ0c", Window: api.WindowHourly, StartMs: 1772366400000, EndMs: 1772370000000, Limits: []api.LimitUsage{{Name: "tpm", Used: -300}}},
			},
			Cursor: "bmV4dA",
		}, plain[api.UsageListReply]()},
		{"usage-summary.reply", api.UsageSummaryReply{
			Totals: api.UsageTotals{{Resource: "gpt-4", Name: "tpm", Windows: 2, Used: 9601, Average: 4800.5, Peak: 5000, PeakStartMs: 1772366400000}},
			Cursor: "bmV4dA",
		}, plain[api.UsageSummaryReply]()},
		{"policy-set.request", api.PolicySetRequest{LimitsTarget: api.LimitsTarget{System: true}, OnUnavailable: api.PolicyAllow, AuditRetentionDays: &days}, erased(api.DecodeRequest[api.PolicySetRequest])},
		{"policy-unset.request", api.PolicySetRequest{LimitsTarget: own, OnUnavailable: api.PolicyUnset}, erased(api.DecodeRequest[api.PolicySetRequest])},
		{"policy-get.request", api.PolicyGetRequest{LimitsTarget: own}, erased(api.DecodeRequest[api.PolicyGetRequest])},
		{"policy.reply", api.PolicyLevel{LimitsTarget: api.LimitsTarget{System: true}, OnUnavailable: api.PolicyAllow, AuditRetentionDays: days, Version: 4}, plain[api.PolicyLevel]()},
		{"namespace.request", api.NamespaceRequest{Name: "tenant-a"}, erased(api.DecodeRequest[api.NamespaceRequest])},
		{"namespace.reply", tenant, plain[api.Namespace]()},
		{"namespace-list.request", api.NamespaceListRequest{Cursor: "bmV4dA", Limit: 50}, erased(api.DecodeRequest[api.NamespaceListRequest])},
		{"namespace-list.reply", api.NamespaceListReply{Namespaces: []api.Namespace{tenant, deleted}, Cursor: "bmV4dA"}, plain[api.NamespaceListReply]()},
		{"namespace-purge.reply", api.NamespacePurgeReply{Deleted: 400, Remaining: 1234}, plain[api.NamespacePurgeReply]()},
		{"operator-change.event", api.OperatorChange{Name: "tenant-a"}, erased(api.DecodeOperatorChange)},
		{"operator-change-keys.event", api.OperatorChange{LeaseKeys: true}, erased(api.DecodeOperatorChange)},
		{"key-list.request", struct{}{}, erased(api.DecodeRequest[struct{}])},
		{"key-list.reply", api.LeaseKeyListReply{Keys: []api.LeaseKey{key}}, plain[api.LeaseKeyListReply]()},
		{"key.reply", key, plain[api.LeaseKey]()},
		{"entity-create.request", api.EntityCreateRequest{ID: "api-key-123", Name: "Alice's key", Parent: "acme", Cascade: true, Metadata: map[string]string{"team": "search"}}, erased(api.DecodeRequest[api.EntityCreateRequest])},
		{"entity.reply", entity, plain[api.Entity]()},
		{"entity-get.request", api.EntityGetRequest{ID: "api-key-123"}, erased(api.DecodeRequest[api.EntityGetRequest])},
		{"entity-update.request", api.EntityUpdateRequest{ID: "api-key-123", Name: &name, Cascade: &no, Version: 2}, erased(api.DecodeRequest[api.EntityUpdateRequest])},
		{"entity-update-clear.request", api.EntityUpdateRequest{ID: "api-key-123", Parent: &nobody, Metadata: map[string]string{}}, erased(api.DecodeRequest[api.EntityUpdateRequest])},
		{"entity-delete.request", api.EntityDeleteRequest{ID: "acme", Orphan: true}, erased(api.DecodeRequest[api.EntityDeleteRequest])},
		{"entity-delete.reply", api.EntityDeleteReply{Deleted: true}, plain[api.EntityDeleteReply]()},
		{"entity-children.request", api.EntityChildrenRequest{ID: "acme", EntityListRequest: api.EntityListRequest{Cursor: "bmV4dA", Limit: 50}}, erased(api.DecodeRequest[api.EntityChildrenRequest])},
		{"entity-list.request", api.EntityListRequest{Cursor: "bmV4dA", Limit: 50}, erased(api.DecodeRequest[api.EntityListRequest])},
		{"entity-list.reply", api.EntityListReply{Entities: []api.Entity{entity}, Cursor: "bmV4dA"}, plain[api.EntityListReply]()},
		{"audit-list.request", api.AuditListRequest{LimitsTarget: api.LimitsTarget{Entity: "api-key-123"}, Action: api.AuditLimitsSet, FromMs: 1772366400000, ToMs: 1772452799999, Cursor: "bmV4dA", Limit: 50}, erased(api.DecodeRequest[api.AuditListRequest])},
		{"audit-list.reply", api.AuditListReply{Events: []api.AuditEvent{event}, Cursor: "bmV4dA"}, plain[api.AuditListReply]()},
		{"audit-archived.reply", api.AuditListReply{Events: []api.AuditEvent{archived}}, plain[api.AuditListReply]()},
		{"audit-verify.request", api.AuditVerifyRequest{FromMs: 1772366400000, ToMs: 1772452799999, Cursor: "bmV4dA"}, erased(api.DecodeRequest[api.AuditVerifyRequest])},
		{"audit-verify.reply", api.AuditVerifyReply{Checked: 2000, ArchiveSearched: true, Cursor: "bmV4dA", Findings: []api.AuditFinding{
			{Kind: api.AuditMissing, First: 17, Last: 19},
			{Kind: api.AuditAltered, First: 12, Last: 12, ID: "1772366400000-12", Where: "audit/AAAAAAAAAAA/2026/03/01/17-9-14.jsonl.gz"},
		}}, plain[api.AuditVerifyReply]()},
		{"audit-show.request", api.AuditShowRequest{ID: event.ID}, erased(api.DecodeRequest[api.AuditShowRequest])},
		{"audit-show.reply", api.AuditShowReply{AuditEvent: event, Intact: true}, plain[api.AuditShowReply]()},
		{"config-change.event", own, erased(api.DecodeConfigChange)},
		{"error.reply", *api.Errorf(api.CodeUnknownLimit, "consume.tpm", "no config level gives this bucket a limit %q", "tpm"), plain[api.Error]()},
	}
}

func TestGoldenMessages(t *testing.T) {
	for _, m := range messages() {
		t.Run(m.file, func(t *testing.T) {
			got, err := json.Marshal(m.value)
			require.NoError(t, err)
			require.Equal(t, string(golden(t, m.file+".json", got)), string(got))

			back, err := m.decode(got)
			require.NoError(t, err)
			require.Equal(t, m.value, back)
		})
	}
}

// TestGoldenCodes pins the closed list: each code's status and meaning.
func TestGoldenCodes(t *testing.T) {
	var list bytes.Buffer
	for _, c := range api.Codes() {
		line, err := json.Marshal([]any{c.Status(), c, c.Meaning()})
		require.NoError(t, err)
		list.Write(append(line, '\n'))
	}
	got := bytes.TrimSpace(list.Bytes())
	require.Equal(t, string(golden(t, "codes.jsonl", got)), string(got))
}

// TestGoldenSubjects pins every subject and header.
func TestGoldenSubjects(t *testing.T) {
	lines := make([]string, 0, 20)
	for _, v := range api.Verbs() {
		namespace := api.DefaultNamespace
		if v.ForOperators() {
			namespace = api.OperatorNamespace
		}
		lines = append(lines, api.Subject(namespace, v))
	}
	lines = append(lines, api.SubjectAll, api.ConfigSubject("default"), api.ConfigSubjectAll, api.InboxPrefix("default"),
		api.ServiceName, api.QueueGroup, api.HeaderTimeout, api.HeaderDeadline, api.HeaderTime, api.HeaderErrorCode, api.HeaderError, api.HeaderRequestInfo)
	got := strings.Join(lines, "\n")
	require.Equal(t, string(golden(t, "subjects.txt", []byte(got))), got)
}

// golden is the file's content, without the line feed at its end.
func golden(t *testing.T, file string, got []byte) []byte {
	t.Helper()
	path := filepath.Join("testdata", file)
	if *update {
		require.NoError(t, os.WriteFile(path, append(bytes.Clone(got), '\n'), 0o600))
	}
	want, err := os.ReadFile(path)
	require.NoError(t, err, "run go test -update")
	return bytes.TrimSuffix(want, []byte("\n"))
}
