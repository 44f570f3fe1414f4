//go:build cluster

package cluster_test

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// patience is how long the test waits for what must come, on a machine that is busy with
// other tests too.
const patience = 90 * time.Second

// process is a program that runs, or has run. It can be started again.
type process struct {
	name    string
	program string
	words   []string
	env     []string
	dir     string // of its log

	cmd  *exec.Cmd
	ends chan error
	from int64 // the size of the log when it was started last
}

// start starts the process. Its log is appended to.
func (p *process) start(t *testing.T) {
	t.Helper()
	log, err := os.OpenFile(p.logFile(), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	require.NoError(t, err)
	info, err := log.Stat()
	require.NoError(t, err)
	p.from = info.Size()
	cmd := exec.CommandContext(context.WithoutCancel(t.Context()), p.program, p.words...)
	cmd.Env, cmd.Dir, cmd.Stdout, cmd.Stderr = p.env, p.dir, log, log
	require.NoError(t, cmd.Start(), p.name)
	require.NoError(t, log.Close())
	ends := make(chan error, 1)
	go func() { ends <- cmd.Wait() }()
	p.cmd, p.ends = cmd, ends
}

func (p *process) logFile() string { return filepath.Join(p.dir, p.name+".log") }

// log returns the log since the last start.
func (p *process) log(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile(p.logFile())
	require.NoError(t, err)
	return string(text[p.from:])
}

// logged waits for a line of the log since the last start, and returns the match's first
// group.
func (p *process) logged(t *testing.T, pattern string) string {
	t.Helper()
	wanted, found := regexp.MustCompile(pattern), ""
	require.Eventually(t, func() bool {
		match := wanted.FindStringSubmatch(p.log(t))
		if match != nil {
			found = match[len(match)-1]
		}
		select {
		case err := <-p.ends:
			p.ends <- err
			t.Fatalf("%s has ended: %v\n%s", p.name, err, p.log(t))
		default:
		}
		return match != nil
	}, patience, 20*time.Millisecond, "%s does not log %s", p.name, pattern)
	return found
}

// stop ends the process in order and requires that it ends well.
func (p *process) stop(t *testing.T) {
	t.Helper()
	p.signal(t, syscall.SIGTERM)
	p.ended(t)
}

// ended waits for the end of the process, which must be in order.
func (p *process) ended(t *testing.T) {
	t.Helper()
	select {
	case err := <-p.ends:
		p.cmd = nil
		require.NoError(t, err, "%s: %s", p.name, p.log(t))
	case <-time.After(patience):
		t.Fatalf("%s does not end: %s", p.name, p.log(t))
	}
}

// kill ends the process from one moment to the next.
func (p *process) kill(t *testing.T) {
	t.Helper()
	p.signal(t, syscall.SIGKILL)
	<-p.ends
	p.cmd = nil
}

// hang stops the process where it is, until goOn.
func (p *process) hang(t *testing.T) { t.Helper(); p.signal(t, syscall.SIGSTOP) }

func (p *process) goOn(t *testing.T) { t.Helper(); p.signal(t, syscall.SIGCONT) }

func (p *process) signal(t *testing.T, s syscall.Signal) {
	t.Helper()
	require.NoError(t, p.cmd.Process.Signal(s), "%s: %s", p.name, p.log(t))
}

// cleanup kills a process that the test has left running, and looks for panics in its log.
func (p *process) cleanup(t *testing.T) {
	t.Helper()
	if p.cmd != nil {
		_ = p.cmd.Process.Kill() // it may have ended
		<-p.ends
	}
	text, err := os.ReadFile(p.logFile())
	require.NoError(t, err)
	for _, bad := range []string{"panic", "DATA RACE"} {
		require.NotContains(t, string(text), bad, p.name)
	}
	if t.Failed() {
		lines := strings.Split(strings.TrimSpace(string(text)), "\n")
		t.Logf("the end of the log of %s:\n%s", p.name, strings.Join(lines[max(0, len(lines)-25):], "\n"))
	}
}
