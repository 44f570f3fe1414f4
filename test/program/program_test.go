package program

import (
	"os"
	"os/exec"
	"testing"

	"github.com/stretchr/testify/require"
)

// A second build finds the program there and leaves it as it is.
func TestAProgramIsBuiltOnce(t *testing.T) {
	file, err := Tidegate(t.Context())
	require.NoError(t, err)
	out, err := exec.CommandContext(t.Context(), file, "version").CombinedOutput()
	require.NoError(t, err, "%s", out)
	before := stat(t, file)
	again, err := Tidegate(t.Context())
	require.NoError(t, err)
	require.Equal(t, file, again)
	require.True(t, os.SameFile(before, stat(t, file)), "it was linked again")
}

func TestAFailedBuildIsTold(t *testing.T) {
	_, err := build(t.Context(), "nothing", "echo no compiler; exit 3")
	require.ErrorContains(t, err, "build nothing: exit status 3: no compiler")
}

func stat(t *testing.T, file string) os.FileInfo {
	t.Helper()
	info, err := os.Stat(file)
	require.NoError(t, err)
	return info
}
