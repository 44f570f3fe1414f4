//go:build natscli

package deploy_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// The nats command of docs/nats-cli.md that connects as a tenant's user is answered
// by the stack. TIDEGATE_TEST_NATS_CLI is the folder of the nats command.
func TestTheNATSCommandLineOfATenant(t *testing.T) {
	folder := os.Getenv("TIDEGATE_TEST_NATS_CLI")
	require.FileExists(t, folder+"/nats", "make test-nats-cli builds it")
	text, err := os.ReadFile(filepath.Join(root, "docs", "nats-cli.md"))
	require.NoError(t, err)
	commands := regexp.MustCompile(`(?m)^nats .* --user .*$`).FindAllString(string(text), -1)
	require.NotEmpty(t, commands)
	s := newStack(t, project(t, nil))
	s.up(t, nil)
	s.admin(t, "limits", "set", "--resource", resource, "rpm=10/day")
	for _, command := range commands {
		sh := exec.CommandContext(t.Context(), "bash", "-c", strings.ReplaceAll(command, "127.0.0.1:4222", s.reached["nats:4222"]))
		sh.Env = append(os.Environ(), "HOME="+t.TempDir(), "PATH="+folder+":"+os.Getenv("PATH"))
		out, err := sh.CombinedOutput()
		require.NoError(t, err, "%s: %s", command, out)
		require.Contains(t, string(out), `"capacity":10`, command)
	}
}
