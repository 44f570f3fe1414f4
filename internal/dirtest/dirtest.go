// Package dirtest gives a test a directory in memory, where there is one: what a test
// forces to the disk then takes no time. What it tests is the same.
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

// New returns an empty directory that is removed when the test ends: in memory, or, where
// there is none or little room, where t.TempDir is.
func New(tb testing.TB) string {
	tb.Helper()
	dir, err := os.MkdirTemp(Parent(), "tidegate-test-") //nolint:usetesting // t.TempDir is where TMPDIR is, on a disk
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
