package deploy_test

import (
	"bytes"
	"context"
	"encoding/json"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/stretchr/testify/require"
)

// process is a container's program that runs, or has run: its command line and
// environment stay the same when it is started again.
type process struct {
	name   string
	admin  string // where its metrics are
	make   func() *exec.Cmd
	ready  func(t *testing.T, p *process) // waits until it is, or the test fails
	calm   bool                           // it was told to stop, and nothing near it was killed
	cmd    *exec.Cmd
	log    *lines
	ended  bool
	checks func(t *testing.T, p *process) // its health check
}

// launch starts it and waits until it is ready and healthy.
func (p *process) launch(t *testing.T) {
	t.Helper()
	p.log, p.cmd, p.ended = newLines(), p.make(), true
	p.cmd.Stdout, p.cmd.Stderr = p.log, p.log
	require.NoError(t, p.cmd.Start(), p.name)
	p.ended = false
	p.ready(t, p)
	p.checks(t, p)
}

// announcement is the line with which a service says that it is ready, and where.
type announcement struct {
	DynamoDB string `json:"dynamodb"`
	Admin    string `json:"admin"`
}

// heard waits for the announcement.
func (p *process) heard(t *testing.T) announcement {
	t.Helper()
	late := time.After(patience)
	for {
		select {
		case line := <-p.log.lines:
			var said announcement
			if json.Unmarshal([]byte(line), &said) == nil && said != (announcement{}) {
				return said
			}
		case <-late:
			t.Fatalf("%s is not ready: %s", p.name, p.log)
		}
	}
}

// stop ends a process as its container would be, and requires that it ended well
// and, where nothing was killed, met no fault.
func (p *process) stop(t *testing.T) {
	t.Helper()
	if p.ended {
		return
	}
	p.ended = true
	_ = p.cmd.Process.Signal(syscall.SIGTERM) // it may have ended, which the code shows
	_ = p.cmd.Wait()                          // the same
	require.Zero(t, p.cmd.ProcessState.ExitCode(), "%s: %s", p.name, p.log)
	require.NotContains(t, p.log.String(), "panic")
	if p.calm {
		require.NotContains(t, p.log.String(), `"level":"ERROR"`)
		require.NotContains(t, p.log.String(), `"level":"WARN"`)
	}
}

// kill ends a process from one moment to the next.
func (p *process) kill(t *testing.T) {
	t.Helper()
	require.False(t, p.ended, p.name)
	p.ended = true
	require.NoError(t, p.cmd.Process.Kill())
	_ = p.cmd.Wait() // it was killed, which is an error
	require.NotContains(t, p.log.String(), "panic")
}

// natsPorts is what the NATS server says of where it listens.
type natsPorts struct {
	NATS       []string `json:"nats"`
	Monitoring []string `json:"monitoring"`
}

// natsPortsIn waits for the file in which a server says it. It is written when
// clients can connect.
func natsPortsIn(t *testing.T, p *process, dir string) (ports natsPorts) {
	t.Helper()
	require.Eventually(t, func() bool {
		files, err := filepath.Glob(filepath.Join(dir, "*.ports"))
		require.NoError(t, err)
		for _, file := range files {
			text, err := os.ReadFile(file)
			if err == nil && json.Unmarshal(text, &ports) == nil && len(ports.NATS) > 0 && len(ports.Monitoring) > 0 {
				return true
			}
		}
		return false
	}, patience, 5*time.Millisecond, "the NATS server does not listen: %s", p.log)
	return ports
}

// clearPorts removes what a server that was killed has left.
func clearPorts(t *testing.T, dir string) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "*.ports"))
	require.NoError(t, err)
	for _, file := range files {
		require.NoError(t, os.Remove(file))
	}
}

// natsImage is the image that natsServerProgram stands for.
func natsImage() string {
	major, minor, _ := strings.Cut(server.VERSION, ".")
	minor, _, _ = strings.Cut(minor, ".")
	return "nats:" + major + "." + minor + "-alpine"
}

func healthy(t *testing.T, url string) bool {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, http.NoBody)
	require.NoError(t, err)
	reply, err := http.DefaultClient.Do(request)
	if err != nil {
		return false
	}
	require.NoError(t, reply.Body.Close())
	return reply.StatusCode == http.StatusOK
}

// outlasting is a command that is stopped in order, and not by the end of the
// test's context.
func outlasting(t *testing.T, program string, words ...string) *exec.Cmd {
	t.Helper()
	return exec.CommandContext(context.WithoutCancel(t.Context()), program, words...)
}

// lines is what a process has said: all of it, and line by line.
type lines struct {
	mu    sync.Mutex
	all   bytes.Buffer // guarded by mu
	rest  []byte       // of a line that has not ended; guarded by mu
	lines chan string  // the first ones
}

// kept is how many lines wait to be read; a service says few before it is ready.
const kept = 1024

func newLines() *lines { return &lines{lines: make(chan string, kept)} }

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.all.Write(p)
	l.rest = append(l.rest, p...)
	for {
		line, rest, ok := bytes.Cut(l.rest, []byte("\n"))
		if !ok {
			return len(p), nil
		}
		l.rest = rest
		select {
		case l.lines <- string(line):
		default: // nobody waits for it any more
		}
	}
}

func (l *lines) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.all.String()
}
