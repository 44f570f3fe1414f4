// Package dirtest gives a test a directory in memory, if the machine has such a file
// system. Forcing data to the disk then takes no time, and the test is the same.
package dirtest

import (
	"os"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

const (
	// shared is Linux's file system in memory.
	shared = "/dev/shm"
	// enough is the free space that New requires there, in bytes: containers may have
	// little.
	enough = 1 << 30
)

// New returns an empty directory that is removed when the test ends. The directory is
// in memory, or under the directory of t.TempDir if there is too little memory for it.
func New(tb testing.TB) string {
	tb.Helper()
	dir, err := os.MkdirTemp(Parent(), "tidegate-test-") //nolint:usetesting // t.TempDir is where TMPDIR is, on a disk
	require.NoError(tb, err)
	tb.Cleanup(func() { require.NoError(tb, os.RemoveAll(dir)) })
	return dir
}

// Parent returns the directory in which New creates its directory, in the form that
// os.MkdirTemp expects.
func Parent() string {
	var fs syscall.Statfs_t
	if err := syscall.Statfs(shared, &fs); err != nil || fs.Bavail*uint64(fs.Bsize) < enough { //nolint:gosec // a block's size is positive
		return ""
	}
	return shared
}
