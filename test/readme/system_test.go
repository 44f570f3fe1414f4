package readme_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/nats-io/nats.go"
	"github.com/stretchr/testify/require"

	"github.com/tidegate/tidegate/internal/dirtest"
	"github.com/tidegate/tidegate/test/program"
)

// system is a running `tidegate up`, as its first line describes it.
type system struct {
	NATS     string `json:"nats"`
	Metrics  string `json:"metrics"`
	DynamoDB string `json:"dynamodb"`
	Dir      string `json:"dir"`

	path      string // of commands: the built program first
	namespace string // of commands; empty: the default one
}

// common is the system that tests share which leave each other alone.
var common struct {
	start func() (*system, error)
	stop  func() error // nil until it was started
}

func TestMain(m *testing.M) {
	os.Exit(runTests(m))
}

func runTests(m *testing.M) int {
	dir, err := os.MkdirTemp(dirtest.Parent(), "tidegate-readme-")
	if err != nil {
		panic(err)
	}
	defer func() { _ = os.RemoveAll(dir) }() // a temporary directory that stays does no harm
	common.start = sync.OnceValues(func() (s *system, err error) {
		s, common.stop, err = startIn(context.Background(), dir)
		return s, err
	})
	code := m.Run()
	if common.stop != nil {
		if err := common.stop(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			return max(code, 1)
		}
	}
	return code
}

// share returns the system that tests share. Commands ask in a namespace of the test's
// own, or in the default one where no name is given.
func share(t *testing.T, namespace string) *system {
	t.Helper()
	running, err := common.start()
	require.NoError(t, err)
	s := *running
	if namespace != "" {
		output, code := s.shell(t, "tidegate namespace create "+namespace)
		require.Zero(t, code, output)
		s.namespace = namespace
	}
	return &s
}

// start starts the program with an empty data directory and free ports, and stops
// it when the test ends. It is ready when start returns.
func start(t *testing.T) *system {
	t.Helper()
	s, stop, err := startIn(t.Context(), dirtest.New(t))
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, stop()) })
	return s
}

// startIn starts the program with a data directory. stop ends it.
func startIn(ctx context.Context, dir string) (s *system, stop func() error, err error) {
	file, err := program.Tidegate(ctx)
	if err != nil {
		return nil, nil, err
	}
	s = &system{path: filepath.Dir(file) + string(os.PathListSeparator) + os.Getenv("PATH")}
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	up := exec.CommandContext(ctx, file, "up", "--json")
	up.Env = append(clean(), "PATH="+s.path,
		"TIDEGATE_DIR="+dir, "TIDEGATE_NATS_LISTEN=127.0.0.1:0",
		"TIDEGATE_ADMIN_LISTEN=127.0.0.1:0", "TIDEGATE_DYNAMODB_LISTEN=127.0.0.1:0")
	up.Cancel = func() error { return up.Process.Signal(syscall.SIGTERM) }
	var said strings.Builder
	up.Stderr = &said
	out, err := up.StdoutPipe()
	if err == nil {
		err = up.Start()
	}
	if err != nil {
		cancel()
		return nil, nil, err
	}
	lines := bufio.NewReader(out)
	stop = func() error {
		cancel()
		_, _ = lines.WriteTo(io.Discard)
		_ = up.Wait() // a process that was stopped by its context says so
		if code := up.ProcessState.ExitCode(); code != 0 {
			return fmt.Errorf("up did not stop in order: exit code %d: %s", code, said.String())
		}
		return nil
	}
	first, err := lines.ReadBytes('\n')
	if err == nil {
		err = json.Unmarshal(first, s)
	}
	if err != nil {
		cancel()
		_ = up.Wait() // said is whole once it has ended
		return nil, nil, fmt.Errorf("up was not ready: %w: %s", err, said.String())
	}
	return s, stop, nil
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
	if s.namespace != "" {
		sh.Env = append(sh.Env, "TIDEGATE_NAMESPACE="+s.namespace)
	}
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
