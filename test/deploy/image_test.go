package deploy_test

import (
	"debug/elf"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// directive is what follows a word at the beginning of a line of the Dockerfile:
// of the last such line that has part in it.
func directive(t *testing.T, word, part string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root, "Dockerfile"))
	require.NoError(t, err)
	found := ""
	for line := range strings.Lines(string(text)) {
		if rest, ok := strings.CutPrefix(line, word+" "); ok && strings.Contains(rest, part) {
			found = strings.TrimSpace(rest)
		}
	}
	require.NotEmpty(t, found, "the Dockerfile has no %s with %q", word, part)
	return found
}

// The image is the program alone, which needs nothing else, run by nobody, and
// tells its health itself.
func TestTheImageIsTheProgramAlone(t *testing.T) {
	require.Equal(t, "scratch", directive(t, "FROM", ""))
	require.Regexp(t, `^[1-9]\d*:[1-9]\d*$`, directive(t, "USER", ""))
	require.Equal(t, `["/tidegate"]`, directive(t, "ENTRYPOINT", ""))
	_, check, ok := strings.Cut(directive(t, "HEALTHCHECK", ""), "CMD ")
	require.True(t, ok)
	var words []string
	require.NoError(t, json.Unmarshal([]byte(check), &words))
	require.Equal(t, []string{"/tidegate", "health"}, words)

	image, err := elf.Open(ourProgram(t))
	require.NoError(t, err)
	t.Cleanup(func() { _ = image.Close() }) // read only
	libraries, err := image.ImportedLibraries()
	require.NoError(t, err)
	require.Empty(t, libraries)
	for _, part := range image.Progs {
		require.NotEqual(t, elf.PT_INTERP, part.Type, "the program needs a loader")
	}
}
