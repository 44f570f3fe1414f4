package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tidegate/tidegate/internal/dirtest"
)

// TestSpentStaysSpent kills the program and stops it: limits and balances are
// there in the next one.
func TestSpentStaysSpent(t *testing.T) {
	t.Parallel()
	program, dir := binary(t), dirtest.New(t)
	ask := func(c *child, line string) int {
		nats := regexp.MustCompile(`nats://[0-9.:]+`).FindString(c.greeting)
		cmd := exec.Command(program, append(strings.Fields(line), "--nats", nats)...)
		out, err := cmd.CombinedOutput()
		require.NotNil(t, cmd.ProcessState, "%v", err)
		t.Logf("%s\n%s", line, out)
		return cmd.ProcessState.ExitCode()
	}
	up := startChild(t, program, dir, "127.0.0.1:0")
	require.Equal(t, exitDone, ask(up, "limits set --resource gpt-4 rpd=3/day"))
	require.Equal(t, exitDone, ask(up, "acquire key-1 gpt-4 rpd=3"))
	for _, signal := range []os.Signal{os.Kill, syscall.SIGTERM} {
		up.end(t, signal)
		up = startChild(t, program, dir, "127.0.0.1:0")
		require.Equal(t, exitDenied, ask(up, "acquire key-1 gpt-4 rpd=1"), "after %s", signal)
		require.Equal(t, exitDone, ask(up, "acquire key-"+signal.String()+" gpt-4 rpd=1"))
	}
	require.Equal(t, exitDone, up.end(t, syscall.SIGTERM))
}

// startStore starts `tidegate dynamodb` and returns its endpoint.
func startStore(t *testing.T, dir string, more ...string) (endpoint string, stop func() int) {
	t.Helper()
	w := newWorld()
	ended, stop := runApart(w, append([]string{"dynamodb", "--listen", "127.0.0.1:0", "--dir", dir}, more...)...)
	t.Cleanup(func() { stop() })
	printed, ready := w.stdout.wait(greetingEnds, ended)
	require.True(t, ready, w.stderr)
	require.Contains(t, printed, "data in "+dir)
	return regexp.MustCompile(`http://[0-9.:]+`).FindString(printed), stop
}

func TestDynamoDBKeepsItsTables(t *testing.T) {
	for _, fsync := range []string{"always", "100ms", "never"} {
		t.Run(fsync, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			endpoint, stop := startStore(t, dir, "--fsync", fsync)
			w := newWorld()
			require.Equal(t, exitDone, runWithin(t, []string{"table", "create", "--dynamodb-endpoint", endpoint}, w), w.stderr)

			for _, other := range []string{"up", "dynamodb"} {
				w := newWorld()
				w.env["TIDEGATE_ADMIN_LISTEN"] = "127.0.0.1:0"
				require.Equal(t, exitError, runWithin(t, []string{other, "--dir", dir}, w))
				require.Contains(t, w.stderr.String(), "is in use")
				require.Contains(t, w.stderr.String(), "--dir")
			}
			require.Equal(t, exitDone, stop())

			endpoint, stop = startStore(t, dir)
			w = newWorld()
			require.Equal(t, exitDone, runWithin(t, []string{"table", "status", "--dynamodb-endpoint", endpoint}, w), w.stderr)
			require.Contains(t, w.stdout.String(), "ACTIVE")
			require.Equal(t, exitDone, stop())
		})
	}
}

// TestADamagedStoreIsNotServed says which file is damaged, and where.
func TestADamagedStoreIsNotServed(t *testing.T) {
	dir := t.TempDir()
	_, stop := startStore(t, dir)
	require.Equal(t, exitDone, stop())
	logs, err := filepath.Glob(filepath.Join(dir, "dynamodb", "log-*"))
	require.NoError(t, err)
	require.Len(t, logs, 1)
	require.NoError(t, os.WriteFile(logs[0], []byte("not a log"), 0o640))
	w := newWorld()
	require.Equal(t, exitError, runWithin(t, []string{"dynamodb", "--listen", "127.0.0.1:0", "--dir", dir}, w))
	require.Contains(t, w.stderr.String(), logs[0]+" is damaged at byte 0")
}

func TestFsyncIsOneOfThree(t *testing.T) {
	for _, command := range []string{"up", "dynamodb"} {
		w := newWorld()
		require.Equal(t, exitUsage, runWithin(t, []string{command, "--fsync", "sometimes"}, w))
		require.Contains(t, w.stderr.String(), "neither always, nor never")
	}
}
