package main

import (
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

// nobody is the user that owns nothing.
const nobody = 65534

// refusedUp runs `up` of the built program, as nobody where it can be, and
// returns what it says as it ends.
func refusedUp(t *testing.T, program string, args ...string) string {
	t.Helper()
	args = append([]string{"up", "--nats-listen", "127.0.0.1:0", "--admin-listen", "127.0.0.1:0"}, args...)
	cmd := exec.CommandContext(t.Context(), program, args...)
	if os.Getuid() == 0 { // whom no directory is read-only to
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: nobody, Gid: nobody}}
	}
	var said strings.Builder
	cmd.Stderr = &said
	printed, err := cmd.Output()
	require.Error(t, err)
	require.Equal(t, exitError, cmd.ProcessState.ExitCode(), said.String())
	require.Empty(t, printed)
	return said.String()
}

// What stands in the way of a first `tidegate up` is said together with what to
// do about it, and that helps.
func TestTheFirstHour(t *testing.T) {
	t.Parallel()
	shared := t.TempDir() // others may run the program, and write nothing
	program := filepath.Join(shared, "tidegate")
	require.NoError(t, os.WriteFile(program, read(t, binary(t)), 0o755))
	require.NoError(t, os.Chmod(program, 0o755))
	require.NoError(t, os.Chmod(filepath.Dir(shared), 0o755))
	require.NoError(t, os.Chmod(shared, 0o755))
	file := filepath.Join(shared, "file")
	require.NoError(t, os.WriteFile(file, nil, 0o600))
	writable := filepath.Join(shared, "writable")
	require.NoError(t, os.Mkdir(writable, 0o700))
	require.NoError(t, os.Chmod(writable, 0o777))
	readOnly := filepath.Join(shared, "read-only")
	require.NoError(t, os.Mkdir(readOnly, 0o500))
	require.NoError(t, os.Chmod(readOnly, 0o555))
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer func() { require.NoError(t, taken.Close()) }()

	for _, flag := range []string{"--nats-listen", "--admin-listen", "--dynamodb-listen"} {
		said := refusedUp(t, program, "--dir", filepath.Join(writable, flag), flag, taken.Addr().String())
		require.Contains(t, said, taken.Addr().String())
		require.Contains(t, said, "give another address with "+flag+" (port 0 takes a free one)")
	}
	for _, dir := range []string{readOnly, filepath.Join(readOnly, "new"), file} {
		said := refusedUp(t, program, "--dir", dir)
		require.Contains(t, said, dir)
		require.Contains(t, said, "give one that can be written with --dir")
	}

	first := startChild(t, program, t.TempDir(), "127.0.0.1:0")
	dir := regexp.MustCompile(`data in (.*)`).FindStringSubmatch(first.greeting)[1]
	second := exec.CommandContext(t.Context(), program, "up", "--dir", dir, "--nats-listen", "127.0.0.1:0", "--admin-listen", "127.0.0.1:0")
	said, err := second.CombinedOutput()
	require.Error(t, err)
	require.Contains(t, string(said), "the data directory "+dir+" is in use")
	require.Contains(t, string(said), "stop that, or give another directory with --dir")

	// Without limits, each command says what to paste.
	address := regexp.MustCompile(`nats://[0-9.:]+`).FindString(first.greeting)
	for resource, words := range map[string][]string{
		"gpt-1": {"acquire", "key", "gpt-1", "rpm=1", "tpm=500"}, "gpt-2": {"status", "key", "gpt-2"}, "gpt-3": {"limits", "resolve", "key", "gpt-3"},
	} {
		ask := func() (string, error) {
			out, err := exec.CommandContext(t.Context(), program, append(words[:len(words):len(words)], "--nats", address)...).CombinedOutput()
			return string(out), err
		}
		said, err := ask()
		require.Error(t, err)
		require.Contains(t, said, "no limits are stored")
		paste := regexp.MustCompile(`(?m)^  (.* limits set .*)$`).FindStringSubmatch(said)
		require.NotNil(t, paste, said)
		require.Contains(t, paste[1], resource)
		out, err := exec.CommandContext(t.Context(), "sh", "-c", paste[1]).CombinedOutput()
		require.NoError(t, err, "%s\n%s", paste[1], out)
		said, err = ask()
		require.NoError(t, err, said)
	}
}
