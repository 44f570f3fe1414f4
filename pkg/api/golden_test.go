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
	everywhere := passed
	everywhere.Resource, everywhere.Requested = "gpt-4", 0
	one := api.Amounts{{Name: "rpm", Tokens: 1}}
	both := api.Amounts{{Name: "rpm", Tokens: 1}, {Name: "tpm", Tokens: 500}}
	own := api.LimitsTarget{Entity: "api-key-123", Resource: "gpt-4"}
	ownLevel := api.LimitsLevel{LimitsTarget: own, Limits: []api.Limit{rpm, tpm}, OnUnavailable: api.PolicyAllow, Version: 3}
	system := api.LimitsLevel{LimitsTarget: api.LimitsTarget{System: true}, Limits: []api.Limit{rpm}, Version: 1}
	yes, no := true, false

	return []message{
		{"acquire.request", api.AcquireRequest{Entity: "api-key-123", Resource: "gpt-4", Consume: both}, acquire(false)},
		{"acquire-policy.request", api.AcquireRequest{Entity: "api-key-123", Resource: "gpt-4", Consume: both, OnUnavailable: api.PolicyAllow}, acquire(false)},
		{"acquire-override.request", api.AcquireRequest{Entity: "api-key-123", Resource: "gpt-4", Consume: both, Limits: []api.Limit{rpm, tpm}}, acquire(true)},
		{"acquire-admitted.reply", api.AcquireReply{Allowed: true, Lease: "v1.k1.cGF5bG9hZA.bWFj", Limits: []api.LimitStatus{passed}}, erased(api.DecodeAcquireReply)},
		{"acquire-denied.reply", api.AcquireReply{RetryAfterMs: 590, Limits: []api.LimitStatus{exceeded}}, erased(api.DecodeAcquireReply)},
		{"acquire-never.reply", api.AcquireReply{RetryAfterMs: -1, Never: true, Limits: []api.LimitStatus{never}}, erased(api.DecodeAcquireReply)},
		{"acquire-degraded.reply", api.AcquireReply{Allowed: true, Degraded: true, Limits: []api.LimitStatus{}}, erased(api.DecodeAcquireReply)},
		{"adjust.request", api.AdjustRequest{Lease: "v1.k1.cGF5bG9hZA.bWFj", Deltas: api.Amounts{{Name: "tpm", Tokens: 1500}, {Name: "rpm", Tokens: -1}}}, erased(api.DecodeAdjust)},
		{"adjust.reply", api.AdjustReply{Lease: "v1.k1.bmV3ZXI.bWFj", Limits: []api.LimitStatus{passed}}, plain[api.AdjustReply]()},
		{"release.request", api.ReleaseRequest{Lease: "v1.k1.cGF5bG9hZA.bWFj"}, erased(api.DecodeRelease)},
		{"release.reply", api.ReleaseReply{Released: true}, plain[api.ReleaseReply]()},
		{"status.request", api.StatusRequest{Entity: "api-key-123"}, erased(api.DecodeStatus)},
		{"status-consume.request", api.StatusRequest{Entity: "api-key-123", Resource: "gpt-4", Consume: one}, erased(api.DecodeStatus)},
		{"status.reply", api.StatusReply{Limits: []api.LimitStatus{everywhere}}, plain[api.StatusReply]()},
		{"status-allowed.reply", api.StatusReply{Allowed: &yes, Limits: []api.LimitStatus{passed}}, plain[api.StatusReply]()},
		{"status-denied.reply", api.StatusReply{Allowed: &no, RetryAfterMs: 590, Limits: []api.LimitStatus{exceeded}}, plain[api.StatusReply]()},
		{"limits-set.request", api.LimitsSetRequest{LimitsTarget: own, Limits: []api.Limit{rpm, tpm}, OnUnavailable: api.PolicyAllow}, erased(api.DecodeLimitsSet)},
		{"limits-set-system.request", api.LimitsSetRequest{LimitsTarget: api.LimitsTarget{System: true}, Limits: []api.Limit{rpm}}, erased(api.DecodeLimitsSet)},
		{"limits-get.request", api.LimitsGetRequest{LimitsTarget: api.LimitsTarget{Resource: "gpt-4"}}, erased(api.DecodeLimitsGet)},
		{"limits-level.reply", ownLevel, plain[api.LimitsLevel]()},
		{"limits-delete.request", api.LimitsDeleteRequest{LimitsTarget: api.LimitsTarget{Entity: "api-key-123"}}, erased(api.DecodeLimitsDelete)},
		{"limits-delete.reply", api.LimitsDeleteReply{Deleted: true}, plain[api.LimitsDeleteReply]()},
		{"limits-list.request", api.LimitsListRequest{Cursor: "bmV4dA", Limit: 50}, erased(api.DecodeLimitsList)},
		{"limits-list.reply", api.LimitsListReply{Levels: []api.LimitsLevel{ownLevel, system}, Cursor: "bmV4dA"}, plain[api.LimitsListReply]()},
		{"limits-resolve.request", api.LimitsResolveRequest{Entity: "api-key-123", Resource: "gpt-4"}, erased(api.DecodeLimitsResolve)},
		{"limits-resolve.reply", api.LimitsResolveReply{Winner: own, Limits: ownLevel.Limits, OnUnavailable: api.PolicyAllow, Levels: []api.LimitsLevel{ownLevel, system}}, plain[api.LimitsResolveReply]()},
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
		lines = append(lines, api.Subject(api.DefaultNamespace, v))
	}
	lines = append(lines, api.SubjectAll, api.ConfigSubject("default"), api.ConfigSubjectAll, api.InboxPrefix("default"),
		api.ServiceName, api.QueueGroup, api.HeaderTimeout, api.HeaderErrorCode, api.HeaderError)
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
