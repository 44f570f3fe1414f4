package journal_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tidegate/tidegate/engine/journal"
)

// TestFilesWithoutEndMarks opens a directory that the version before end marks has
// written, again and again, goes on in it, and then misses what is taken from it.
func TestFilesWithoutEndMarks(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "copy")
	require.NoError(t, os.CopyFS(dir, os.DirFS("testdata/format2")))
	for from := 15; from < 30; from += 5 {
		var c content
		var past []string
		j, said, err := openAll(journal.Options{Dir: dir}, &c, func(_ uint64, b []byte) error {
			past = append(past, string(b))
			return nil
		})
		require.NoError(t, err)
		require.Empty(t, said)
		require.Equal(t, []string{"entry"}, c.entries)
		require.Equal(t, records(3, from-1), append(past, c.records...))
		require.Equal(t, records(3, from-1), read(t, j, 3, from-1))
		fill(t, j, from, from+4)
		require.NoError(t, j.Close())
	}
	names := files(t, dir)
	last := names[len(names)-2] // before the snapshot
	require.NoError(t, os.Remove(filepath.Join(dir, last)))
	_, _, _, err := open(journal.Options{Dir: dir})
	require.ErrorIs(t, err, journal.ErrIncomplete)
	require.ErrorContains(t, err, "restore the directory "+dir)
}

// TestAnEmptyLogWithoutEndMarks has a log that the version before has only begun.
func TestAnEmptyLogWithoutEndMarks(t *testing.T) {
	dir := written(t, journal.Options{}, 0)
	require.NoError(t, os.Remove(filepath.Join(dir, reachName)))
	edit(t, filepath.Join(dir, firstLog), func(b []byte) []byte { return journal.Reversion(b, 2) })
	for range 2 {
		j, c, said, err := open(journal.Options{Dir: dir})
		require.NoError(t, err)
		require.Empty(t, c)
		require.Empty(t, said)
		require.Equal(t, []string{firstLog}, files(t, dir))
		require.NoError(t, j.Close())
	}
}
