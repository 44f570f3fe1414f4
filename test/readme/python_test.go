//go:build python

package readme_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// The file of docs/python.md does what it says. TIDEGATE_TEST_PYTHON is a Python
// that has nats-py.
func TestPython(t *testing.T) {
	python := os.Getenv("TIDEGATE_TEST_PYTHON")
	require.NotEmpty(t, python, "make test-python sets it")
	s := start(t)
	output, code := s.shell(t, "tidegate limits set --resource gpt-4 rpm=100/min tpm=10000/min:20000")
	require.Zero(t, code, output)
	cmd := exec.CommandContext(t.Context(), python, "-B", filepath.Join(root, pythonFile), s.NATS)
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, "%s", out)
	require.Equal(t, "all is well\n", string(out))
}
