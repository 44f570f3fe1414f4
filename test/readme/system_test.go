package readme_test

import (
	"bufio"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/nats-io/nats.go"
	"github.com/stretchr/testify/require"
)

// program builds the program once for all tests and returns its folder.
var program = sync.OnceValues(func() (string, error) {
	dir, err := os.MkdirTemp("", "tidegate-readme-")
	if err != nil {
		return "", err
	}
	if err := touch(); err != nil {
		return dir, err
	}
	build := exec.Command("go", "build", "-o", filepath.Join(dir, "tidegate"), "./cmd/tidegate")
	build.Dir = root
	if out, err := build.CombinedOutput(); err != nil {
		return dir, errors.New(string(out))
	}
	return dir, nil
})

// touch looks at everything the program is built from. What go build reads is
// hidden from the test cache, which would keep the result of older sources.
func touch() error {
	for _, part := range []string{"cmd", "internal", "pkg", "services", "go.mod", "go.sum"} {
		err := filepath.WalkDir(filepath.Join(root, part), func(file string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() || strings.HasSuffix(file, "_test.go") {
				return err
			}
			_, err = os.Stat(file)
			return err
		})
		if err != nil {
			return err
		}
	}
	return nil
}

func TestMain(m *testing.M) {
	code := m.Run()
	if dir, _ := program(); dir != "" {
		_ = os.RemoveAll(dir) // a temporary directory that stays does no harm
	}
	os.Exit(code)
}

// system is a running `tidegate up`, as its first line describes it.
type system struct {
	NATS     string `json:"nats"`
	Metrics  string `json:"metrics"`
	DynamoDB string `json:"dynamodb"`
	Dir      string `json:"dir"`

	path string // of commands: the built program first
}

// start starts the program with an empty data directory and free ports, and stops
// it when the test ends. It is ready when start returns.
func start(t *testing.T) *system {
	t.Helper()
	dir, err := program()
	require.NoError(t, err)
	s := &system{path: dir + string(os.PathListSeparator) + os.Getenv("PATH")}
	up := exec.CommandContext(t.Context(), filepath.Join(dir, "tidegate"), "up", "--json")
	up.Env = append(clean(), "PATH="+s.path,
		"TIDEGATE_DIR="+t.TempDir(), "TIDEGATE_NATS_LISTEN=127.0.0.1:0",
		"TIDEGATE_ADMIN_LISTEN=127.0.0.1:0", "TIDEGATE_DYNAMODB_LISTEN=127.0.0.1:0")
	up.Cancel = func() error { return up.Process.Signal(syscall.SIGTERM) }
	var said strings.Builder
	up.Stderr = &said
	out, err := up.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, up.Start())
	lines := bufio.NewReader(out)
	t.Cleanup(func() { // t.Context has ended by now, so the program was told to stop
		_, _ = lines.WriteTo(&strings.Builder{})
		_ = up.Wait() // a process that was stopped by its context says so
		require.Zero(t, up.ProcessState.ExitCode(), "up did not stop in order: %s", said.String())
	})
	first, err := lines.ReadBytes('\n')
	if err != nil { // it has ended, so that nothing writes to said any more
		_ = up.Wait()
		t.Fatalf("up ended before it was ready: %s", said.String())
	}
	require.NoError(t, json.Unmarshal(first, s))
	return s
}

// clean is the environment without Tidegate's variables.
func clean() []string {
	var env []string
	for _, v := range os.Environ() {
		if !strings.HasPrefix(v, "TIDEGATE_") {
			env = append(env, v)
		}
	}
	return env
}

// here replaces the default addresses of a text by the process's own.
func (s *system) here(text string) string {
	return strings.NewReplacer(
		"nats://127.0.0.1:4222", s.NATS,
		"http://127.0.0.1:9464/metrics", s.Metrics,
		"http://127.0.0.1:9464", strings.TrimSuffix(s.Metrics, "/metrics"),
		"http://127.0.0.1:8000", s.DynamoDB,
	).Replace(text)
}

// shell runs one command in the repository and returns its output and exit code.
func (s *system) shell(t *testing.T, command string) (output string, code int) {
	t.Helper()
	sh := exec.CommandContext(t.Context(), "bash", "-euo", "pipefail", "-c", s.here(command))
	sh.Dir = root
	sh.Env = append(clean(), "PATH="+s.path, "TIDEGATE_NATS="+s.NATS, "TIDEGATE_METRICS="+s.Metrics)
	out, err := sh.CombinedOutput()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		require.NoError(t, err)
	}
	return string(out), sh.ProcessState.ExitCode()
}

// connect is a connection that ends with the test.
func (s *system) connect(t *testing.T) *nats.Conn {
	t.Helper()
	nc, err := nats.Connect(s.NATS)
	require.NoError(t, err)
	t.Cleanup(nc.Close)
	return nc
}
