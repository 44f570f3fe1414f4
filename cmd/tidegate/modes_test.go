package main

import (
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// The store of a data directory holds signing keys: no other user of the machine reads its
// files, also after an earlier release made the directories.
func TestOtherUsersReadNoKeys(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for _, folder := range []string{"dynamodb", "nats"} {
		require.NoError(t, os.Mkdir(filepath.Join(dir, folder), 0o755)) // a looser mode than any release's
	}
	up, err := startUpIn(dir)
	require.NoError(t, err)
	require.Equal(t, exitDone, up.stop())
	seen := 0
	for _, folder := range []string{"dynamodb", "nats"} {
		info, err := os.Stat(filepath.Join(dir, folder))
		require.NoError(t, err)
		require.Equal(t, fs.FileMode(0o700), info.Mode().Perm(), folder)
	}
	require.NoError(t, filepath.WalkDir(filepath.Join(dir, "dynamodb"), func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		seen++
		info, err := d.Info()
		require.NoError(t, err)
		require.Equal(t, fs.FileMode(0o600), info.Mode().Perm(), path)
		return nil
	}))
	require.Positive(t, seen)
}
