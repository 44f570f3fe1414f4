package main

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tidegate/tidegate/internal/dirtest"
)

// tried are the commands that a greeting suggests, without indentation.
func tried(greeting string) []string {
	var commands []string
	for line := range strings.Lines(greeting) {
		if command, indented := strings.CutPrefix(line, "  "); indented {
			commands = append(commands, strings.TrimSpace(command))
		}
	}
	return commands
}

// TestUpSuggestsWhatWorks runs the three commands that up prints.
func TestUpSuggestsWhatWorks(t *testing.T) {
	s := startUp(t)
	first, _, _ := strings.Cut(s.printed, "\n")
	require.Contains(t, first, "ready: NATS "+s.nats)
	commands := tried(s.printed)
	require.Len(t, commands, 3)
	for i, want := range []string{"rpm=100/min", "admitted", "AVAILABLE"} {
		args := strings.Fields(commands[i])
		require.Equal(t, self, args[0])
		w := newWorld()
		require.Equal(t, exitDone, runWithin(t, args[1:], w), "%s\n%s", commands[i], w.stderr)
		require.Contains(t, w.stdout.String(), want)
	}
	require.Equal(t, exitDone, s.stop())
	require.Empty(t, s.stderr.String(), "a quiet run logs nothing")
}

// TestGreeting shows what up prints where nothing differs from the defaults.
func TestGreeting(t *testing.T) {
	w := newWorld()
	up := upCmd{Dir: "./tidegate-data", adminFlags: adminFlags{AdminListen: "127.0.0.1:9464"}}
	up.greet(output{environment: w.environment()}, defaultNATS)
	up.greet(output{environment: w.environment(), json: true}, defaultNATS)
	golden(t, "greeting.txt", w.stdout.String())
}

func TestUpStopsWithItsContext(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	w := newWorld()
	code := run(ctx, []string{"up", "--dir", t.TempDir(), "--nats-listen", "127.0.0.1:0", "--admin-listen", "127.0.0.1:0"}, w.environment())
	require.Equal(t, exitDone, code, w.stderr.String())
}

// child is a running program.
type child struct {
	cmd      *exec.Cmd
	greeting string
}

// startChild starts `up` and reads its greeting.
func startChild(t *testing.T, program, dir, listen string) *child {
	t.Helper()
	cmd := exec.Command(program, "up", "--dir", dir, "--nats-listen", listen, "--admin-listen", "127.0.0.1:0")
	cmd.Stderr = os.Stderr
	stdout, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	t.Cleanup(func() {
		err := cmd.Process.Kill()
		require.True(t, err == nil || errors.Is(err, os.ErrProcessDone), err)
	})
	var greeting strings.Builder
	lines := bufio.NewReader(stdout)
	for !strings.HasSuffix(greeting.String(), greetingEnds) {
		line, err := lines.ReadString('\n')
		require.NoError(t, err, "up ended early: %s", greeting.String())
		greeting.WriteString(line)
	}
	go func() { _, _ = io.Copy(io.Discard, lines) }()
	return &child{cmd: cmd, greeting: greeting.String()}
}

// end sends a signal and returns the exit code.
func (c *child) end(t *testing.T, signal os.Signal) int {
	t.Helper()
	require.NoError(t, c.cmd.Process.Signal(signal))
	err := c.cmd.Wait()
	var exit *exec.ExitError
	if !errors.As(err, &exit) {
		require.NoError(t, err)
	}
	return c.cmd.ProcessState.ExitCode()
}

// TestProgram builds the program, pastes what it prints into a shell, stops it
// by a signal, and starts it again in the same place.
func TestProgram(t *testing.T) {
	t.Parallel()
	program, dir := binary(t), dirtest.New(t)
	first := startChild(t, program, dir, "127.0.0.1:0")
	commands := tried(first.greeting)
	require.Len(t, commands, 3)
	for _, command := range commands {
		shell := exec.Command("sh", "-c", command)
		shell.Dir = "/" // another terminal is anywhere
		out, err := shell.CombinedOutput()
		require.NoError(t, err, "%s\n%s", command, out)
	}
	address := strings.TrimPrefix(regexp.MustCompile(`nats://[0-9.:]+`).FindString(first.greeting), "nats://")

	locked := exec.Command(program, "up", "--dir", dir, "--nats-listen", "127.0.0.1:0", "--admin-listen", "127.0.0.1:0")
	out, err := locked.CombinedOutput()
	require.Error(t, err)
	require.Contains(t, string(out), "is in use")
	require.Equal(t, exitError, locked.ProcessState.ExitCode())

	require.Equal(t, exitDone, first.end(t, syscall.SIGTERM))
	requireFree(t, address)

	second := startChild(t, program, dir, address)
	require.Equal(t, exitDone, second.end(t, os.Interrupt))
	requireFree(t, address)

	third := startChild(t, program, dir, address)
	require.Equal(t, -1, third.end(t, os.Kill), "a kill leaves no exit code")
	fourth := startChild(t, program, dir, address)
	require.Equal(t, exitDone, fourth.end(t, syscall.SIGTERM))
}

// requireFree fails unless an address can be listened on.
func requireFree(t *testing.T, address string) {
	t.Helper()
	l, err := net.Listen("tcp", address)
	require.NoError(t, err)
	require.NoError(t, l.Close())
	_, err = net.DialTimeout("tcp", address, time.Second)
	require.Error(t, err)
}

// TestUpShowsAllMetrics asks for the metrics of everything in one process: those
// that docs/metrics.md lists, and no others. Which of them move is tested in
// test/observe.
func TestUpShowsAllMetrics(t *testing.T) {
	t.Parallel()
	s := share(t)
	for _, command := range tried(s.printed) {
		w := newWorld()
		w.env = s.environment()
		require.Equal(t, exitDone, runWithin(t, strings.Fields(command)[1:], w), command)
	}
	document, err := os.ReadFile(filepath.Join("..", "..", "docs", "metrics.md"))
	require.NoError(t, err)
	listed := map[string]bool{}
	for _, m := range regexp.MustCompile("(?m)^\\| `(tidegate_\\w+)`").FindAllStringSubmatch(string(document), -1) {
		listed[m[1]] = true
	}
	address := regexp.MustCompile(`http://[0-9.:]+/metrics`).FindString(s.printed)
	shown := map[string]bool{}
	require.Eventually(t, func() bool {
		reply, err := http.Get(address)
		require.NoError(t, err)
		page, err := io.ReadAll(reply.Body)
		require.NoError(t, errors.Join(err, reply.Body.Close()))
		for _, m := range regexp.MustCompile(`(?m)^# TYPE (tidegate_\w+) `).FindAllStringSubmatch(string(page), -1) {
			shown[m[1]] = true
		}
		return len(shown) >= len(listed)
	}, patience, 100*time.Millisecond, "listed %v, shown %v", listed, shown)
	require.Equal(t, listed, shown)
}
