// Package dirtest gives a test an in-memory directory if the machine has memory-backed
// storage, so that forcing files to the disk takes no time. The tested code paths are
// the same.
package dirtest

import (
	"os"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

const (
	// shared is where Linux keeps files in memory.
	shared = "/dev/shm"
	// enough is the room that must be left there, in bytes: of containers, some have little.
	enough = 1 << 30
)

// New returns an empty directory that is removed when the test ends. It is in memory
// or, if memory-backed storage is missing or has little room, below os.TempDir.
func New(tb testing.TB) string {
	tb.Helper()
	dir, err := os.MkdirTemp(Parent(), "tidegate-test-")
	require.NoError(tb, err)
	tb.Cleanup(func() { require.NoError(tb, os.RemoveAll(dir)) })
	return dir
}

// Parent returns the directory in which New makes its own, as os.MkdirTemp takes it.
func Parent() string {
	var fs syscall.Statfs_t
	if err := syscall.Statfs(shared, &fs); err != nil || fs.Bavail*uint64(fs.Bsize) < enough { //nolint:gosec // a block's size is positive
		return ""
	}
	return shared
}
