//go:build natscli

package readme_test

import (
	"encoding/json"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// The commands of docs/nats-cli.md work as they stand, in order, and print what is
// below them. TIDEGATE_TEST_NATS_CLI is the folder of the nats command.
func TestNATSCommandLine(t *testing.T) {
	folder := os.Getenv("TIDEGATE_TEST_NATS_CLI")
	require.FileExists(t, folder+"/nats", "make test-nats-cli builds it")
	s := start(t)
	s.path = folder + string(os.PathListSeparator) + s.path
	t.Setenv("HOME", t.TempDir()) // where it keeps contexts
	last, ran := "", 0
	d := read(t, natsCLI)
	for _, f := range d.fences(t) {
		if strings.Join(append([]string{f.language}, f.info...), " ") == "json printed" {
			var want, is map[string]any
			require.NoError(t, json.Unmarshal([]byte(f.text), &want), "%s:%d", d.name, f.line)
			require.NoError(t, json.Unmarshal([]byte(last), &is), "%s:%d: %s", d.name, f.line, last)
			require.Empty(t, differences("", want, is), "%s:%d: it printed\n%s", d.name, f.line, last)
			continue
		}
		for _, c := range f.commands(t) {
			if strings.Contains(c.text, " --user ") {
				continue // test/deploy has such users, TestTheNATSCommandLineOfATenant
			}
			var code int
			last, code = s.shell(t, c.text)
			require.Equal(t, c.code, code, "%s:%d: %s\n%s", d.name, c.line, c.text, last)
			require.NotContains(t, last, "no responders", "%s:%d: %s", d.name, c.line, c.text)
			ran++
		}
	}
	require.Greater(t, ran, 5)
}
