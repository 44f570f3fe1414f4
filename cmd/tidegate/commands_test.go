package main

import (
	"encoding/json"
	"io"
	"net"
	"net/http"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tidegate/tidegate/internal/embednats/natstest"
	"github.com/tidegate/tidegate/pkg/api"
)

// The limits below regain a token in weeks, so that balances stand still.

// TestTranscript is a tour of all commands as people see them.
func TestTranscript(t *testing.T) {
	t.Parallel()
	s := share(t)
	env := s.environment()
	text := transcript(t, env,
		"limits list",
		"acquire key-1 gpt-4 rpm=1 tpm=500",
		"limits set --resource gpt-4 rpm=10/520week tpm=100/520week:20000",
		"limits set --system rpm=5/520week --on-unavailable allow",
		"limits set --entity key-2 rpm=7/520week",
		"limits set --entity key-2 --resource gpt-4 rpm=8/520week",
		"limits list",
		"limits list --entity key-2",
		"limits list --resource gpt-4",
		"limits get --system",
		"limits get --resource unknown",
		"limits resolve key-1 gpt-4",
		"limits resolve key-2 gpt-4",
		"acquire key-1 gpt-4 rpm=1 tpm=500",
		"adjust $LEASE tpm=+1500",
		"adjust $LEASE tpm=-200",
		"status key-1 gpt-4",
		"release $LEASE",
		"status key-1 gpt-4",
		"acquire key-1 gpt-4 images=1",
		"acquire key-1 gpt-4 rpm=10 tpm=1",
		"acquire key-1 gpt-4 rpm=1",
		"acquire key-1 gpt-4 rpm=11",
		"status key-1 gpt-4 rpm=1",
		"status key-1 gpt-4 rpm=11",
		"status key-1 gpt-4 rpm=0 tpm=5",
		"status key-1 gpt-4 tpm=5",
		"acquire key-1 gpt-3 rpm=1",
		"status key-1",
		"status key-9",
		"acquire key-3 gpt-4 tpm=1",
		"adjust $LEASE tpm=+20100",
		"acquire key-3 gpt-4 rpm=1",
		"release forged",
		"adjust forged rpm=1",
		"limits delete --entity key-2",
		"limits delete --entity key-2",
		"acquire key-1 gpt-4 rpm=2 --limit rpm=3/520week",
		"acquire key-1 gpt-4 rpm=2 --limit rpm=3/520week",
		"acquire key-1 gpt-4 tpm=1 --limit rpm=3/520week",
		"status key-1",
		"acquire key-1 gpt-4 rpm=1 --namespace nobody",
	)
	golden(t, "tour.txt", s.placeless(steady(text)))
}

// TestTranscriptOfSettings is a tour of entities and of the changes made so far.
func TestTranscriptOfSettings(t *testing.T) {
	t.Parallel()
	s := share(t)
	tour := []string{
		"entity list",
		"entity get key-1",
		"entity create acme --name Acme --meta plan=gold",
		"entity create key-1 --parent acme --cascade --meta team=search --meta note=a=b",
		"entity create key-1",
		"entity create key-2 --parent nobody",
		"entity update key-1 --name Alice --no-meta",
		"entity update key-1 --no-cascade --if-version 1",
		"entity update acme --parent key-1",
		"entity children acme",
		"entity children key-1",
		"entity list",
		"entity delete acme",
		"entity update key-1 --no-parent",
		"entity delete acme",
		"entity delete acme",
		"limits set --system rpm=100/min",
		"audit list",
		"audit list --entity key-1 --action entity.update",
		"audit list --resource gpt-4",
		"audit list --limit 1",
		"audit list --to 2020-01-01",
		"audit list --from 1h --system",
		"audit show 1-1",
		"audit show nothing",
	}
	text := transcript(t, s.environment(), tour...)
	text += transcript(t, map[string]string{"TIDEGATE_NATS": s.nats, "TIDEGATE_NAMESPACE": s.namespace, "TIDEGATE_JSON": "1"},
		"entity get key-1", "entity list", "entity children acme", "audit list --limit 1", "entity delete key-1")
	golden(t, "settings.txt", steadyEvents(s.placeless(text)))
	w := newWorld()
	w.env = s.environment()
	require.Equal(t, exitDone, runWithin(t, []string{"audit", "list", "--limit", "1"}, w))
	id := eventIDs.FindString(w.stdout.String())
	require.Contains(t, transcript(t, w.env, "audit show "+id), `before: {"entity":"key-1"`)
}

// TestTranscriptJSON is the same for programs.
func TestTranscriptJSON(t *testing.T) {
	t.Parallel()
	s := share(t)
	env := s.environment()
	env["TIDEGATE_JSON"] = "1"
	text := transcript(t, env,
		"limits list",
		"acquire key-1 gpt-4 rpm=1",
		"limits set --resource gpt-4 rpm=10/520week",
		"limits get --resource gpt-4",
		"limits list",
		"limits resolve key-1 gpt-4",
		"acquire key-1 gpt-4 rpm=1",
		"adjust $LEASE rpm=+2",
		"release $LEASE",
		"acquire key-1 gpt-4 rpm=10",
		"acquire key-1 gpt-4 rpm=1",
		"acquire key-1 gpt-4 rpm=11",
		"status key-1 gpt-4",
		"status key-1 gpt-4 rpm=1",
		"status key-1",
		"limits delete --resource gpt-4",
	)
	golden(t, "tour_json.txt", s.placeless(steady(text)))
}

// TestTranscriptOperators is a tour of the commands that are not about limits.
func TestTranscriptOperators(t *testing.T) {
	t.Parallel()
	s := startUp(t)
	env := s.environment()
	text := transcript(t, env,
		"namespace create tenant-a",
		"namespace create tenant-a",
		"namespace create Tenant",
		"namespace list",
		"limits set --system rpm=5/520week --namespace tenant-a",
		"acquire key-1 gpt-4 rpm=1 --namespace tenant-a",
		"release $LEASE",
		"namespace purge tenant-a --yes",
		"namespace delete default",
		"namespace delete tenant-a",
		"status key-1 --namespace tenant-a",
		"namespace create tenant-a",
		"namespace recover tenant-a",
		"status key-1 --namespace tenant-a",
	)
	counted(t, env, "usage key-1 --namespace tenant-a", 1) // which a purge removes, too
	text += transcript(t, env,
		"namespace delete tenant-a",
		"namespace purge tenant-a",
		"namespace purge tenant-a --yes",
		"namespace get tenant-a",
		"policy get --system",
		"policy set --system --on-unavailable allow --audit-retention-days 30",
		"policy set --resource gpt-4 --on-unavailable block",
		"policy set --resource gpt-4",
		"policy set --resource gpt-4 --audit-retention-days 30",
		"policy get --system",
		"limits set --system rpm=5/520week",
		"limits resolve key-1 gpt-4",
		"policy set --resource gpt-4 --on-unavailable unset",
		"limits resolve key-1 gpt-4",
		"key list",
		"key rotate",
		"key rotate",
		"key list",
		"key revoke AAAAAA",
		"key revoke here",
	)
	var known api.LeaseKeyListReply
	asks := newWorld()
	asks.env = env
	require.Equal(t, exitDone, runWithin(t, []string{"key", "list", "--json"}, asks))
	require.NoError(t, json.Unmarshal([]byte(asks.stdout.String()), &known))
	text += strings.ReplaceAll(transcript(t, env, "key revoke -- "+known.Keys[0].ID, "key list"), known.Keys[0].ID, "<key>")
	golden(t, "operators.txt", s.placeless(steady(text)))
	env["TIDEGATE_JSON"] = "1"
	golden(t, "operators_json.txt", strings.ReplaceAll(steady(transcript(t, env,
		"namespace create tenant-a", "namespace list", "namespace delete tenant-a", "namespace recover tenant-a",
		"namespace delete tenant-a", "namespace purge tenant-a --yes", "policy get --system", "key list", "key rotate",
	)), s.nats, "$NATS"))
}

// TestJSONIsJSON reads what the commands print for programs.
func TestJSONIsJSON(t *testing.T) {
	t.Parallel()
	s := share(t)
	s.env = s.environment()
	ask := func(reply any, line string) int {
		w := newWorld()
		w.env = s.env
		code := runWithin(t, append(strings.Fields(line), "--json"), w)
		require.NoError(t, json.Unmarshal([]byte(w.stdout.String()), reply), line)
		return code
	}
	var level api.LimitsLevel
	require.Equal(t, exitDone, ask(&level, "limits set --system rpm=3/520week"))
	require.Equal(t, int64(3), level.Limits[0].Capacity)
	var reply api.AcquireReply
	require.Equal(t, exitDone, ask(&reply, "acquire key-1 gpt-4 rpm=3"))
	require.True(t, reply.Allowed)
	require.NotEmpty(t, reply.Lease)
	var denied api.AcquireReply
	require.Equal(t, exitDenied, ask(&denied, "acquire key-1 gpt-4 rpm=1"))
	require.False(t, denied.Allowed)
	require.Positive(t, denied.RetryAfterMs)
	var never api.AcquireReply
	require.Equal(t, exitDenied, ask(&never, "acquire key-1 gpt-4 rpm=4"))
	require.True(t, never.Never)
	require.Equal(t, int64(-1), never.RetryAfterMs)
}

// TestTable creates, looks at and deletes a table of the store that up serves.
func TestTable(t *testing.T) {
	t.Parallel()
	s := share(t)
	env := map[string]string{"TIDEGATE_DYNAMODB_ENDPOINT": s.endpoint(t)}
	text := transcript(t, env,
		"table status",
		"table status --table mine",
		"table create --table mine",
		"table create --table mine --json",
		"table delete --table mine --yes",
		"table delete --table mine --yes",
		"table status --table mine",
	)
	golden(t, "table.txt", regexp.MustCompile(`RequestID: [0-9A-Z]+`).ReplaceAllString(text, "RequestID: <id>"))
}

// TestAdmission runs a second node on the NATS and the store of up.
func TestAdmission(t *testing.T) {
	s := share(t)
	endpoint := s.endpoint(t)
	node := newWorld()
	ended, stop := runApart(node, "admission", "--nats", s.nats, "--dynamodb-endpoint", endpoint, "--admin-listen", "127.0.0.1:0")
	_, ready := node.stderr.wait("admission is ready", ended)
	require.True(t, ready, node.stderr.String())
	require.Equal(t, exitDone, stop())
	text := transcript(t, s.environment(), "status key-1") // up's own node goes on
	require.Contains(t, text, "exit code 0")
}

func TestAdmissionWithoutTable(t *testing.T) {
	t.Parallel()
	s := share(t)
	endpoint := s.endpoint(t)
	w := newWorld()
	code := runWithin(t, []string{
		"admission", "--nats", s.nats, "--dynamodb-endpoint", endpoint,
		"--table", "mine", "--admin-listen", "127.0.0.1:0",
	}, w)
	require.Equal(t, exitError, code)
	require.Contains(t, w.stderr.String(), "tidegate table create")
}

// TestAdmissionWithoutNATS: what cannot be reached is NATS, so that no word is of
// the store.
func TestAdmissionWithoutNATS(t *testing.T) {
	t.Parallel()
	w := newWorld()
	code := runWithin(t, []string{
		"admission", "--nats", "nats://127.0.0.1:99999", // no port: the dial itself fails
		"--dynamodb-endpoint", "http://127.0.0.1:1", "--admin-listen", "127.0.0.1:0",
	}, w)
	require.Equal(t, exitError, code)
	require.Contains(t, w.stderr.String(), "point --nats at yours")
	require.NotContains(t, w.stderr.String(), "--dynamodb-endpoint")
}

// TestDynamoDB keeps limits in a store that runs alone.
func TestDynamoDB(t *testing.T) {
	t.Parallel()
	store := newWorld()
	ended, stop := runApart(store, "dynamodb", "--listen", "127.0.0.1:0")
	printed, ready := store.stdout.wait(greetingEnds, ended)
	require.True(t, ready, store.stderr)
	args := strings.Fields(tried(printed)[0])
	w := newWorld()
	require.Equal(t, exitDone, runWithin(t, args[1:], w), w.stderr)
	require.Contains(t, w.stdout.String(), "ACTIVE")
	require.Equal(t, exitDone, stop())
}

// TestNobodyAnswers asks a NATS server on which no admission runs.
func TestNobodyAnswers(t *testing.T) {
	t.Parallel()
	url := natstest.Start(t).ClientURL()
	text := transcript(t, map[string]string{"TIDEGATE_NATS": url},
		"acquire key-1 gpt-4 rpm=1",
		"acquire key-1 gpt-4 rpm=1 --on-unavailable allow",
		"release forged",
		"limits list",
	)
	golden(t, "nobody.txt", strings.ReplaceAll(text, url, "$NATS"))
}

// TestLevelsOfACascade shows whose limit is which, when there are several.
func TestLevelsOfACascade(t *testing.T) {
	var p page
	p.limits([]api.LimitStatus{
		{Entity: "key-1", Name: "rpm", Capacity: 10, Requested: 1, Available: 9},
		{Entity: "team", Name: "rpm", Capacity: 100, Requested: 1, Available: -5, Exceeded: true, RetryAfterMs: 1500},
	}, true)
	require.Equal(t, strings.Join([]string{
		"ENTITY  LIMIT  REQUESTED  AVAILABLE  CAPACITY",
		"key-1   rpm    1          9          10",
		"team    rpm    1          -5         100  enough in 1.5 s",
		"",
	}, "\n"), p.String())
}

// TestAdminListener reads health and metrics of a running system.
func TestAdminListener(t *testing.T) {
	t.Parallel()
	s := share(t)
	base := strings.TrimSuffix(regexp.MustCompile(`http://[0-9.:]+/metrics`).FindString(s.printed), "/metrics")
	get := func(path string) string {
		resp, err := http.Get(base + path)
		require.NoError(t, err)
		defer func() { require.NoError(t, resp.Body.Close()) }()
		body, err := io.ReadAll(resp.Body)
		require.NoError(t, err)
		require.Equal(t, http.StatusOK, resp.StatusCode, path)
		return string(body)
	}
	get("/healthz")
	get("/readyz")
	require.Contains(t, get("/metrics"), "go_goroutines")
	require.Contains(t, get("/metrics"), "tidegate_")
	require.Contains(t, get("/debug/pprof/"), "goroutine")
}

func TestTakenPorts(t *testing.T) {
	t.Parallel()
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer func() { require.NoError(t, taken.Close()) }()
	for _, flag := range []string{"--nats-listen", "--admin-listen", "--dynamodb-listen"} {
		w := newWorld()
		args := []string{"up", "--dir", t.TempDir(), "--nats-listen", "127.0.0.1:0", "--admin-listen", "127.0.0.1:0", flag, taken.Addr().String()}
		require.Equal(t, exitError, runWithin(t, args, w), flag)
		require.Contains(t, w.stderr.String(), "give another address with "+flag)
		require.Empty(t, w.stdout.String())
	}
}

func TestDirectoryInUse(t *testing.T) {
	t.Parallel()
	s := share(t)
	w := newWorld()
	require.Equal(t, exitError, runWithin(t, []string{"up", "--dir", s.dir, "--nats-listen", "127.0.0.1:0", "--admin-listen", "127.0.0.1:0"}, w))
	require.Contains(t, w.stderr.String(), "is in use")
	require.Contains(t, w.stderr.String(), "--dir")
}
