package main

import (
	"encoding/json"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/stretchr/testify/require"

	"github.com/tidegate/tidegate/engine"
	"github.com/tidegate/tidegate/internal/table"
	"github.com/tidegate/tidegate/pkg/api"
	"github.com/tidegate/tidegate/pkg/keys"
)

// runs runs a command line against a running up, and requires how it ends.
func (s *system) runs(t *testing.T, code int, args ...string) (stdout, stderr string) {
	t.Helper()
	w := newWorld()
	w.env = s.environment()
	require.Equal(t, code, runWithin(t, args, w), "%v\n%s", args, w.stderr)
	return w.stdout.String(), w.stderr.String()
}

func eventsOf(t *testing.T, text string) []api.AuditEvent {
	t.Helper()
	var listed api.AuditListReply
	require.NoError(t, json.Unmarshal([]byte(text), &listed))
	return listed.Events
}

// What leaves the table is listed, shown, exported and verified as before, out of the
// data directory; what is altered there is named.
func TestAuditEventsThatHaveLeftTheTable(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s := startUp(t, "--dir", dir, "--dynamodb-listen", "127.0.0.1:0")
	for _, burst := range []string{"100", "200", "300"} {
		s.runs(t, exitDone, "limits", "set", "--resource", "gpt-4", "rpm=100/min:"+burst)
	}
	before := eventsOf(t, first(s.runs(t, exitDone, "audit", "list", "--json")))
	require.Len(t, before, 3)
	out, _ := s.runs(t, exitDone, "audit", "verify")
	require.Regexp(t, `^3 events in the table and in the archive: none is missing, doubled or altered\n$`, out)

	old := before[2]
	s.removeItem(t, keys.Audit{Namespace: old.Namespace, ID: old.Target, AtMs: old.AtMs, Sequence: old.Sequence})
	require.Eventually(t, func() bool {
		return len(eventsOf(t, first(s.runs(t, exitDone, "audit", "list", "--json")))) == 3
	}, 60*time.Second, 50*time.Millisecond, "it comes back from the archive")
	after := eventsOf(t, first(s.runs(t, exitDone, "audit", "list", "--json")))
	require.Equal(t, api.DeletedByHand, after[2].Deleted.By)
	after[2].Deleted = nil
	require.Equal(t, before, after)
	out, _ = s.runs(t, exitDone, "audit", "show", old.ID)
	require.Contains(t, out, "in the archive: somebody took it out of the table on ")
	s.runs(t, exitDone, "audit", "verify")

	out, _ = s.runs(t, exitDone, "audit", "export")
	lines := strings.Split(strings.TrimSuffix(out, "\n"), "\n")
	require.Len(t, lines, 3)
	var last api.AuditEvent
	require.NoError(t, json.Unmarshal([]byte(lines[2]), &last))
	require.Equal(t, old.ID, last.ID)
	file := filepath.Join(t.TempDir(), "audit.jsonl")
	out, _ = s.runs(t, exitDone, "audit", "export", "--out", file, "--resource", "gpt-4")
	require.Equal(t, "3 events are in "+file+"\n", out)
	written, err := os.ReadFile(file)
	require.NoError(t, err)
	require.Len(t, strings.Split(string(written), "\n"), 4)
	_, told := s.runs(t, exitError, "audit", "export", "--out", file)
	require.Contains(t, told, "file exists")

	require.NoError(t, filepath.WalkDir(filepath.Join(dir, "archive", "audit"), func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		return os.WriteFile(path, []byte("no gzip"), 0o600)
	}))
	out, told = s.runs(t, exitError, "audit", "verify", "--settle", "0s")
	require.Contains(t, out, "unreadable")
	require.Contains(t, out, "missing")
	require.Contains(t, told, "the audit log is incomplete or altered")
	_, told = s.runs(t, exitError, "audit", "list")
	require.Contains(t, told, "an object of the audit archive is damaged")
}

// Where events leave the table all the time, some are always on their way. What was
// there the first time is not missing the second time; what else is found is told.
func TestEventsOnTheirWayAreNotMissing(t *testing.T) {
	missing := func(first, last int64) api.AuditFinding {
		return api.AuditFinding{Kind: api.AuditMissing, First: first, Last: last}
	}
	altered := api.AuditFinding{Kind: api.AuditAltered, First: 6, Last: 6}
	require.Empty(t, stillMissing([]api.AuditFinding{missing(8, 9)}, []api.AuditFinding{missing(10, 12), missing(3, 7)}))
	require.Equal(t, []api.AuditFinding{missing(9, 9), missing(4, 5), altered, missing(2, 2)},
		stillMissing([]api.AuditFinding{missing(9, 30), altered, missing(4, 5), missing(2, 2)}, []api.AuditFinding{missing(3, 9), altered, missing(1, 2)}))
	require.NotNil(t, stillMissing(nil, nil), "an array on the wire")
}

func first(stdout, _ string) string { return stdout }

// removeItem deletes an item of the running store, past everybody.
func (s *system) removeItem(t *testing.T, key keys.Item) {
	t.Helper()
	cfg := engine.Config(http.DefaultClient, localRegion)
	endpoint := s.endpoint(t)
	cfg.BaseEndpoint = &endpoint
	name := table.DefaultName
	_, err := dynamodb.NewFromConfig(cfg).DeleteItem(t.Context(), &dynamodb.DeleteItemInput{TableName: &name, Key: table.KeyItem(key.Key())})
	require.NoError(t, err)
}

// A wrong URL ends archiver and node before they do anything.
func TestArchivesThatAreNone(t *testing.T) {
	t.Parallel()
	for _, command := range [][]string{{"archiver"}, {"admission", "--dynamodb-endpoint", "http://127.0.0.1:1"}} {
		for url, code := range map[string]int{
			"gs://bucket": exitUsage, "s3://": exitUsage, "file:///dev/null/archive": exitError, "s3://bucket?acl=public": exitUsage,
		} {
			w := newWorld()
			require.Equal(t, code, runWithin(t, append(command, "--archive", url, "--admin-listen", "127.0.0.1:0"), w), "%v %s", command, url)
			require.Contains(t, w.stderr.String(), "archive")
		}
	}
}
