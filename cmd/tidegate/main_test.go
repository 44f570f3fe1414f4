package main

import (
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tidegate/tidegate/internal/dirtest"
	"github.com/tidegate/tidegate/test/program"
)

// common is the `tidegate up` that tests share. It starts with the first test that
// asks for it: starting it takes longer than most tests do.
var common struct {
	start   func() (*system, error)
	tenants atomic.Int64
}

func TestMain(m *testing.M) {
	os.Exit(runTests(m))
}

func runTests(m *testing.M) int {
	dir, err := os.MkdirTemp(dirtest.Parent(), "tidegate-cmd-")
	if err != nil {
		panic(err)
	}
	defer func() { _ = os.RemoveAll(dir) }() // a temporary directory that stays does no harm
	if err := os.Setenv("AWS_EC2_METADATA_DISABLED", "true"); err != nil {
		panic(err)
	}
	started := false
	common.start = sync.OnceValues(func() (*system, error) {
		started = true
		return startUpIn(filepath.Join(dir, "data"), "--dynamodb-listen", "127.0.0.1:0")
	})
	code := m.Run()
	if started {
		if s, err := common.start(); err == nil && s.stop() != exitDone {
			fmt.Fprintf(os.Stderr, "the shared `tidegate up` did not stop in order: %s\n", s.stderr)
			return max(code, 1)
		}
	}
	return code
}

// share returns the system that tests share, with a namespace of the test's own. Its
// name is as long as that of the default namespace, so that columns stay as they are.
func share(t *testing.T) *system {
	t.Helper()
	running, err := common.start()
	require.NoError(t, err)
	s := *running
	s.world = newWorld()
	s.namespace = fmt.Sprintf("test-%02d", common.tenants.Add(1))
	s.stop = func() int { panic("the shared system stops after all tests") }
	s.runs(t, exitDone, "namespace", "create", s.namespace)
	return &s
}

// binary returns the program's file.
func binary(t *testing.T) string {
	t.Helper()
	file, err := program.Tidegate(t.Context())
	require.NoError(t, err)
	return file
}
