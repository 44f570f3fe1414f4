package dirtest

import (
	"os"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestADirectoryIsGoneWithItsTest(t *testing.T) {
	var dir string
	t.Run("with a directory", func(t *testing.T) {
		dir = New(t)
		require.DirExists(t, dir)
		require.NoError(t, os.WriteFile(dir+"/file", nil, 0o600))
		require.NotEqual(t, dir, New(t))
	})
	require.NoDirExists(t, dir)
}
