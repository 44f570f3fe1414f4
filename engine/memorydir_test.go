package engine_test

import (
	"os"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

// memoryDir is a directory for what must outlive an engine or its process, but no
// computer: in memory where there is a file system for that with room enough, for
// on a disk these tests do little but wait for fsync. What fsync is for is tested
// in package journal, by files that fail and forget.
func memoryDir(t *testing.T) string {
	t.Helper()
	const (
		memory = "/dev/shm"
		enough = 1 << 30
	)
	var fs syscall.Statfs_t
	if err := syscall.Statfs(memory, &fs); err != nil || fs.Bavail*uint64(fs.Bsize) < enough {
		return t.TempDir()
	}
	dir, err := os.MkdirTemp(memory, "tidegate-engine-") //nolint:usetesting // t.TempDir is where TMPDIR is, on a disk
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, os.RemoveAll(dir)) })
	return dir
}
