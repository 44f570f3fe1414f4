package main

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tidegate/tidegate/internal/dirtest"
	"github.com/tidegate/tidegate/pkg/api"
)

var update = flag.Bool("update", false, "write the golden files anew")

// self is how the program is called in tests, and in the commands it prints.
const self = "tidegate"

// world is a process whose environment and streams are the test's.
type world struct {
	env            map[string]string
	stdin          string
	terminal       bool // stdin is a person's
	stdout, stderr *buffer
}

func newWorld() *world {
	return &world{env: map[string]string{}, stdout: newBuffer(), stderr: newBuffer()}
}

func (w *world) environment() environment {
	return environment{getenv: func(name string) string { return w.env[name] }, self: self, stdin: strings.NewReader(w.stdin), terminal: w.terminal, stdout: w.stdout, stderr: w.stderr}
}

// buffer is a stream that can be waited on.
type buffer struct {
	mu      sync.Mutex
	content bytes.Buffer  // guarded by mu
	changed chan struct{} // guarded by mu; closed and replaced by each write
}

func newBuffer() *buffer { return &buffer{changed: make(chan struct{})} }

func (b *buffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	close(b.changed)
	b.changed = make(chan struct{})
	return b.content.Write(p)
}

func (b *buffer) String() string {
	text, _ := b.look()
	return text
}

func (b *buffer) look() (string, <-chan struct{}) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.content.String(), b.changed
}

// wait returns what was written once part is in it, or false if ended closes
// before.
func (b *buffer) wait(part string, ended <-chan struct{}) (string, bool) {
	for {
		text, changed := b.look()
		if strings.Contains(text, part) {
			return text, true
		}
		select {
		case <-changed:
		case <-ended:
			return b.String(), false
		}
	}
}

// system is a running `tidegate up`.
type system struct {
	*world
	dir       string
	printed   string // up to and with the last line of the greeting
	nats      string
	namespace string     // of the test, where tests share the system
	stop      func() int // ends it and returns its exit code
}

// greetingEnds is the last line of the greeting.
const greetingEnds = howToStop + "\n"

// startUp starts `tidegate up` with a directory and ports of its own, and more
// flags if given, and waits until it is ready.
func startUp(t *testing.T, more ...string) *system {
	t.Helper()
	s, err := startUpIn(dirtest.New(t), more...)
	require.NoError(t, err)
	t.Cleanup(func() { s.stop() })
	return s
}

// startUpIn starts `tidegate up` with a data directory and waits until it is ready.
func startUpIn(dir string, more ...string) (*system, error) {
	args := append([]string{"up", "--dir", dir, "--nats-listen", "127.0.0.1:0", "--admin-listen", "127.0.0.1:0"}, more...)
	s := &system{world: newWorld(), dir: dir}
	ended, stop := runApart(s.world, args...)
	s.stop = stop
	printed, ready := s.stdout.wait(greetingEnds, ended)
	if !ready {
		return nil, fmt.Errorf("up ended: %s", s.stderr)
	}
	s.printed = printed
	s.nats = natsOf(printed)
	return s, nil
}

// environment is the environment of commands that ask the system.
func (s *system) environment() map[string]string {
	env := map[string]string{"TIDEGATE_NATS": s.nats}
	if s.namespace != "" {
		env["TIDEGATE_NAMESPACE"] = s.namespace
	}
	return env
}

// endpoint is the address of the system's store, started with --dynamodb-listen.
func (s *system) endpoint(t *testing.T) string {
	t.Helper()
	found := regexp.MustCompile(`DynamoDB (http://[0-9.:]+)`).FindStringSubmatch(s.printed)
	require.NotNil(t, found, "up says where the store listens: %s", s.printed)
	return found[1]
}

// placeless replaces in a transcript what depends on the system it ran on.
func (s *system) placeless(text string) string {
	text = strings.ReplaceAll(text, s.nats, "$NATS")
	if s.namespace != "" {
		text = strings.ReplaceAll(text, " --namespace "+s.namespace, "") // of commands to paste
		text = strings.ReplaceAll(text, s.namespace, api.DefaultNamespace)
	}
	return text
}

// natsOf finds the address of NATS in a greeting.
func natsOf(printed string) string {
	return regexp.MustCompile(`nats://[0-9.:]+`).FindString(printed)
}

// runApart runs a command line that goes on until it is stopped. ended is closed
// when it has ended; stop ends it and returns the exit code.
func runApart(w *world, args ...string) (ended <-chan struct{}, stop func() int) {
	ctx, cancel := context.WithCancel(context.Background())
	done, code := make(chan struct{}), exitDone
	go func() {
		defer close(done)
		code = run(ctx, args, w.environment())
	}()
	return done, func() int {
		cancel()
		<-done
		return code
	}
}

// transcript runs command lines against a system and returns what a terminal
// would show. $LEASE in a line is the last lease that was printed.
func transcript(t *testing.T, env map[string]string, lines ...string) string {
	t.Helper()
	var out strings.Builder
	lease := ""
	for _, line := range lines {
		w := newWorld()
		w.env = env
		args := strings.Fields(strings.ReplaceAll(line, "$LEASE", lease))
		code := runWithin(t, args, w)
		for _, found := range leases.FindAllString(w.stdout.String(), -1) {
			lease = found
		}
		out.WriteString("$ tidegate " + line + "\n" + w.stdout.String() + w.stderr.String())
		out.WriteString("exit code " + strconv.Itoa(code) + "\n\n")
	}
	return out.String()
}

// patience is how long tests wait for what must come: only a hang takes so long.
const patience = time.Minute

// runWithin runs a command line that must end.
func runWithin(t *testing.T, args []string, w *world) int {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	return run(ctx, args, w.environment())
}

var (
	leases  = regexp.MustCompile(`A[A-Za-z0-9_-]{60,}`)
	waits   = regexp.MustCompile(`\b(\d+ ms|\d+\.\d s|\d+h\d+m\d+s|\d+m\d+s|\d+ days)`)
	moments = regexp.MustCompile(`\b20\d\d-\d\d-\d\dT\d\d:\d\d:\d\dZ`)
	// Ids are random; columns are as wide as their widest cell all the same.
	namespaceIDs = regexp.MustCompile(`\b(default|tenant-a)( +)[A-Za-z0-9_-]{11}( +)`)
	keyIDs       = regexp.MustCompile(`(?m)^[A-Za-z0-9_-]{6}( +(?:next|signing|retired) )`)
	idsJSON      = regexp.MustCompile(`"id":"[A-Za-z0-9_-]+"`)
	momentsJSON  = regexp.MustCompile(`_ms":\d{13}`)
	waitsJSON    = regexp.MustCompile(`"retry_after_ms":\d+`)
)

// steady replaces what differs from run to run.
func steady(text string) string {
	text = leases.ReplaceAllString(text, "<lease>")
	text = waits.ReplaceAllString(text, "<wait>")
	text = moments.ReplaceAllString(text, "<moment>")
	text = namespaceIDs.ReplaceAllString(text, "$1$2<id>$3")
	text = keyIDs.ReplaceAllString(text, "<key> $1")
	text = idsJSON.ReplaceAllString(text, `"id":"<id>"`)
	text = momentsJSON.ReplaceAllString(text, `_ms":<moment>`)
	return waitsJSON.ReplaceAllString(text, `"retry_after_ms":<ms>`)
}

var (
	eventIDs   = regexp.MustCompile(`\b\d{13}-\d+\b`)
	eventTimes = regexp.MustCompile(`\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d{3}Z`)
	eventSeals = regexp.MustCompile(`"(namespace|at_ms|previous_mac|key_id|mac)":("[^"]*"|\d+)`)
)

// steadyEvents replaces what differs between runs in audit events.
func steadyEvents(text string) string {
	text = eventIDs.ReplaceAllString(text, "<id>")
	text = eventTimes.ReplaceAllString(text, "<time>")
	return eventSeals.ReplaceAllString(text, `"$1":<$1>`)
}

// golden compares with a file in testdata, or writes it with -update.
func golden(t *testing.T, name, got string) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *update {
		require.NoError(t, os.WriteFile(path, []byte(got), 0o644))
	}
	want, err := os.ReadFile(path)
	require.NoError(t, err, "go test -update writes it")
	require.Equal(t, string(want), got, "go test -update accepts it")
}
