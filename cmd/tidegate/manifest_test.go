package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/tidegate/tidegate/engine"
	"github.com/tidegate/tidegate/engine/fault"
	"github.com/tidegate/tidegate/internal/audit"
	"github.com/tidegate/tidegate/internal/config"
	"github.com/tidegate/tidegate/internal/embednats/natstest"
	"github.com/tidegate/tidegate/internal/table"
	"github.com/tidegate/tidegate/pkg/api"
)

// TestManifests is the life of a manifest as people see it.
func TestManifests(t *testing.T) {
	t.Parallel()
	s := share(t)
	folder := s.manifests(t) + string(filepath.Separator)
	lines := []string{
		"limits plan missing.yaml",
		"limits plan bad.yaml",
		"limits apply bad.yaml --yes --json",
		"limits list",
		"limits plan first.yaml",
		"limits apply first.yaml",
		"limits list",
		"limits apply first.yaml --yes",
		"limits apply first.yaml",
		"limits apply first.yaml --json",
		"limits get --resource gpt-4 --json",
		"limits set --resource by-hand rpm=1/min",
		"limits set --resource mine rpm=7/min --on-unavailable block",
		"limits plan second.yaml",
		"limits plan second.yaml --json",
		"limits apply second.yaml --yes",
		"limits apply second.yaml --yes --json --take-over",
		"limits plan second.yaml",
		"limits set --resource gpt-5 rpm=5/min",
		"limits plan second.yaml",
		"limits apply other.yaml --yes --take-over",
		"limits plan second.yaml",
		"limits get --resource gpt-4",
	}
	for i, line := range lines {
		lines[i] = regexp.MustCompile(`\w+\.yaml`).ReplaceAllStringFunc(line, func(file string) string { return folder + file })
	}
	text := transcript(t, s.environment(), lines...)
	golden(t, "manifests.txt", strings.ReplaceAll(s.placeless(text), folder, ""))
}

// manifests copies the manifests of testdata into a folder, and into the namespace of
// the test.
func (s *system) manifests(t *testing.T) string {
	t.Helper()
	folder := t.TempDir()
	for _, name := range []string{"bad.yaml", "first.yaml", "other.yaml", "second.yaml"} {
		data := bytes.Replace(read(t, filepath.Join("testdata", "manifests", name)), []byte("namespace: default\n"), []byte("namespace: "+s.namespace+"\n"), 1)
		require.NoError(t, os.WriteFile(filepath.Join(folder, name), data, 0o600))
	}
	return folder
}

// At a terminal, apply asks; everything but a yes changes nothing.
func TestApplyAsks(t *testing.T) {
	t.Parallel()
	s := share(t)
	answer := func(stdin string, line string) (int, string) {
		w := newWorld()
		w.env, w.stdin, w.terminal = s.environment(), stdin, true
		code := runWithin(t, strings.Fields(line), w)
		return code, w.stdout.String() + w.stderr.String()
	}
	folder := s.manifests(t)
	first, second := filepath.Join(folder, "first.yaml"), filepath.Join(folder, "second.yaml")
	apply := "limits apply " + first
	for _, no := range []string{"", "n\n", "yess\n", "no"} {
		code, said := answer(no, apply)
		require.Equal(t, exitError, code, "%q", no)
		require.Contains(t, said, "Carry this out in namespace "+s.namespace+"? [y/N]")
		require.Contains(t, said, "nothing was changed")
	}
	code, said := answer(string(read(t, first)), "limits apply -")
	require.Equal(t, exitUsage, code, "the answer cannot come from where the manifest does")
	require.Contains(t, said, "--yes")
	code, said = answer("Y\n", apply)
	require.Equal(t, exitDone, code, said)
	require.Contains(t, said, "4 of 4 steps are done")
	code, said = answer(string(read(t, second)), "limits apply - --yes")
	require.Equal(t, exitDone, code, said)
	require.Contains(t, said, "5 of 5 steps are done")
}

func read(t *testing.T, path string) []byte {
	t.Helper()
	data, err := os.ReadFile(path)
	require.NoError(t, err)
	return data
}

// faultySystem is NATS and one admission node on a store that can fail.
type faultySystem struct {
	nats   string
	faults *fault.Transport
	stored *config.LimitStore // beside all faults
	ns     string             // id of the default namespace
}

func startFaulty(t *testing.T) *faultySystem {
	t.Helper()
	log := slog.New(slog.DiscardHandler)
	embedded := engine.New(engine.Options{Now: time.Now})
	direct := engine.Config(embedded.HTTPClient(), localRegion)
	client := dynamodb.NewFromConfig(direct)
	require.NoError(t, prepareTable(t.Context(), client, table.DefaultName))
	id, err := config.NewNamespaces(client, table.DefaultName).Lookup(t.Context(), api.DefaultNamespace)
	require.NoError(t, err)
	s := &faultySystem{nats: natstest.Start(t).ClientURL(), ns: id, stored: config.NewLimitStore(client, table.DefaultName, audit.NewLog(client, table.DefaultName, func() (time.Time, error) { return time.Now(), nil })), faults: fault.New(fault.Options{Next: embedded.HTTPClient(), Now: time.Now})}
	n := node{
		nats: natsFlags{NATS: s.nats}, table: table.DefaultName, log: log, metrics: prometheus.NewRegistry(),
		store: engine.Config(&http.Client{Transport: s.faults}, localRegion),
	}
	ctx, cancel := context.WithCancel(context.Background())
	ready, ended := make(chan struct{}), make(chan error, 1)
	go func() { ended <- n.run(ctx, "admission", admissionCmd{}.make, func() { close(ready) }) }()
	t.Cleanup(func() { cancel(); require.NoError(t, <-ended) })
	select {
	case <-ready:
	case err := <-ended:
		require.NoError(t, err)
	}
	return s
}

// apply applies a file and returns what came out.
func (s *faultySystem) apply(t *testing.T, file string) (int, applied) {
	t.Helper()
	w := newWorld()
	w.env["TIDEGATE_NATS"] = s.nats
	code := runWithin(t, []string{"limits", "apply", file, "--yes", "--json"}, w)
	var report applied
	require.NoError(t, json.Unmarshal([]byte(w.stdout.String()), &report), "%s%s", w.stdout, w.stderr)
	return code, report
}

// manifestOf writes a manifest of so many entities, each limited to a rate.
func manifestOf(t *testing.T, entities, rate int) string {
	t.Helper()
	var b strings.Builder
	b.WriteString("namespace: default\nmanifest: gateway\nlimits:\n  entities:\n    key: {_default_: {rpm: 1/min}}\n")
	for i := range entities {
		fmt.Fprintf(&b, "    key-%05d: {gpt-4: {rpm: %d/min}}\n", i, rate)
	}
	file := filepath.Join(t.TempDir(), "m.yaml")
	require.NoError(t, os.WriteFile(file, []byte(b.String()), 0o600))
	return file
}

// The store fails in the middle: what was not done is reported as pending, and
// applying again does exactly that.
func TestASecondApplyCompletesTheFirst(t *testing.T) {
	forbidden := fault.Fault{Kind: fault.Refused, Refusal: fault.Refusal{
		Status: http.StatusBadRequest, Type: "com.amazon.coral.service#AccessDeniedException", Message: "not authorized",
	}}
	for name, bad := range map[string]fault.Fault{
		"refused":    forbidden,
		"reply lost": {Kind: fault.ReplyLost},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel() // they wait for answers that do not come
			s := startFaulty(t)
			const entities, passing = 24, 16 // the rest wait for answers that do not come
			first := manifestOf(t, entities, 10)
			s.failFrom(passing, bad)
			code, report := s.apply(t, first)
			require.Equal(t, exitError, code)
			require.Equal(t, entities+1, report.Done+report.Pending)
			require.NotZero(t, report.Done)
			require.NotEmpty(t, report.Failed)
			require.GreaterOrEqual(t, report.Pending, len(report.Failed))

			s.faults.Match(nil)
			code, report = s.apply(t, first)
			require.Equal(t, exitDone, code, "%+v", report.Failed)
			require.Zero(t, report.Pending)
			_, report = s.apply(t, first)
			require.Empty(t, report.Steps)
			require.Equal(t, entities+1, report.Unchanged)

			// Changes and deletions, interrupted as well.
			second := manifestOf(t, entities/2, 20)
			s.failFrom(passing, forbidden)
			code, report = s.apply(t, second)
			require.Equal(t, exitError, code)
			require.NotZero(t, report.Pending)
			s.faults.Match(nil)
			code, report = s.apply(t, second)
			require.Equal(t, exitDone, code)
			require.Zero(t, report.Pending)
			_, report = s.apply(t, second)
			require.Empty(t, report.Steps)
			require.Equal(t, entities/2+1, report.Unchanged)
		})
	}
}

// failFrom lets so many changes of items pass and meets all further ones, and
// the reads that look what became of them, with a fault.
func (s *faultySystem) failFrom(passing int, bad fault.Fault) {
	writes := make(chan struct{}, passing)
	s.faults.Match(func(operation string, _ []byte) fault.Fault {
		if operation != "TransactWriteItems" {
			if operation == "GetItem" && len(writes) == passing {
				return bad
			}
			return fault.Fault{}
		}
		select {
		case writes <- struct{}{}:
			return fault.Fault{}
		default:
			return bad
		}
	})
}

// Somebody changes a level between the plan and its step: the change stays, and
// is reported.
func TestAConcurrentChangeIsLeftAlone(t *testing.T) {
	t.Parallel()
	s := startFaulty(t)
	file := manifestOf(t, 5, 10)
	code, _ := s.apply(t, file)
	require.Equal(t, exitDone, code)
	changed := make(chan struct{}, 1)
	s.faults.Match(func(operation string, _ []byte) fault.Fault {
		if operation != "TransactWriteItems" {
			return fault.Fault{}
		}
		select {
		case changed <- struct{}{}: // before the first step of the apply
			for i := range 5 {
				_, err := s.stored.Set(context.Background(), s.ns, api.Principal{}, api.LimitsSetRequest{
					LimitsTarget: api.LimitsTarget{Entity: fmt.Sprintf("key-%05d", i), Resource: "gpt-4"},
					Limits:       []api.Limit{{Name: "rpm", Capacity: 77, RefillAmount: 77, RefillPeriodSeconds: 60}},
				})
				assert.NoError(t, err)
			}
		default:
		}
		return fault.Fault{}
	})
	code, report := s.apply(t, manifestOf(t, 5, 20))
	require.Equal(t, exitError, code)
	require.NotEmpty(t, report.Failed)
	for _, f := range report.Failed {
		require.Equal(t, "conflict", string(f.Code))
	}
	require.Equal(t, len(report.Failed), report.Pending)
	s.faults.Match(nil)
	w := newWorld()
	w.env["TIDEGATE_NATS"] = s.nats
	require.Equal(t, exitDone, runWithin(t, []string{"limits", "plan", file}, w))
	require.Contains(t, w.stdout.String(), "set by hand to rpm=77/min")
}

func TestAManifestOfManyPages(t *testing.T) {
	t.Parallel()
	s := startFaulty(t)
	const entities = 2_500
	file := manifestOf(t, entities, 10)
	code, report := s.apply(t, file)
	require.Equal(t, exitDone, code, "%+v", report.Failed)
	require.Equal(t, entities+1, report.Done)
	code, report = s.apply(t, file)
	require.Equal(t, exitDone, code)
	require.Empty(t, report.Steps)
	code, report = s.apply(t, manifestOf(t, 0, 0))
	require.Equal(t, exitDone, code)
	require.Equal(t, entities, report.Done)
}
