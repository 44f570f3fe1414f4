package journal_test

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tidegate/tidegate/engine/journal"
)

const (
	frameSize = 32 + 4 + len("record-1")
	firstLog  = "log-00000000000000000001"
)

// written is a directory of records, one a frame, as a crash leaves it.
func written(t *testing.T, o journal.Options, count int) string {
	t.Helper()
	o.Dir = t.TempDir()
	j, _ := mustOpen(t, o)
	fill(t, j, 1, count)
	return crashed(t, o.Dir)
}

// edit changes a file.
func edit(t *testing.T, path string, change func([]byte) []byte) {
	t.Helper()
	b, err := os.ReadFile(path)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(path, change(bytes.Clone(b)), 0o640))
}

// TestTornTail cuts a log at every byte of its last frame, which was never
// acknowledged.
func TestTornTail(t *testing.T) {
	dir := written(t, journal.Options{}, 5)
	whole, err := os.ReadFile(filepath.Join(dir, firstLog))
	require.NoError(t, err)
	for lost := 1; lost <= frameSize; lost++ {
		edit(t, filepath.Join(dir, firstLog), func([]byte) []byte { return whole[:len(whole)-lost] })
		reached(t, dir, 4, 4)
		j, c, log, err := open(journal.Options{Dir: dir})
		require.NoError(t, err, "%d bytes lost", lost)
		require.Equal(t, records(1, 4), c.records)
		if lost < frameSize {
			require.Contains(t, log, firstLog)
			require.Contains(t, log, "offset=")
			require.Contains(t, log, "acknowledged writes may be lost")
			require.Contains(t, log, "first_lost=5")
		} else {
			require.Empty(t, log, "all of the frame is gone")
		}
		require.NoError(t, j.Wait(appendText(j, "anew")))
		require.NoError(t, j.Close())
		j, c, log, err = open(journal.Options{Dir: dir})
		require.NoError(t, err)
		require.Equal(t, append(records(1, 4), "anew"), c.records, "the tail was cut off before it was written over")
		require.Empty(t, log)
		require.NoError(t, j.Close())
	}
}

// TestDamage flips every byte before the last frame, one after the other.
func TestDamage(t *testing.T) {
	dir := written(t, journal.Options{}, 5)
	path := filepath.Join(dir, firstLog)
	whole, err := os.ReadFile(path)
	require.NoError(t, err)
	for at := range len(whole) - frameSize {
		edit(t, path, func([]byte) []byte {
			b := bytes.Clone(whole)
			b[at] ^= 0x10
			return b
		})
		_, _, _, err := open(journal.Options{Dir: dir})
		var damage *journal.DamageError
		require.ErrorAs(t, err, &damage, "byte %d", at)
		require.Equal(t, path, damage.File)
		frame := 0
		if at >= 32 {
			frame = 32 + (at-32)/frameSize*frameSize
		}
		require.EqualValues(t, frame, damage.Offset)
		require.ErrorContains(t, err, path)
		after, err := os.ReadFile(path)
		require.NoError(t, err)
		require.Len(t, after, len(whole), "what is damaged is left alone")
	}
}

// TestDamageWithoutFsync: frames that were never forced may reach the disk in
// any order, so a hole among them is the end and no damage.
func TestDamageWithoutFsync(t *testing.T) {
	dir := written(t, journal.Options{Sync: journal.Never}, 5)
	edit(t, filepath.Join(dir, firstLog), func(b []byte) []byte {
		b[len(b)-2*frameSize] ^= 1
		return b
	})
	_, c, log, err := open(journal.Options{Dir: dir})
	require.NoError(t, err)
	require.Equal(t, records(1, 3), c.records)
	require.Contains(t, log, "bytes=88")
	require.Contains(t, log, "acknowledged writes are lost")
	require.Contains(t, log, "first_lost=4 last_lost=5")
}

// TestDamageOfOtherFiles is about files that have no tail to be torn.
func TestDamageOfOtherFiles(t *testing.T) {
	snapshotted := func(t *testing.T) string {
		o := journal.Options{Dir: t.TempDir(), LogBytes: 100}
		j, _ := mustOpen(t, o)
		fill(t, j, 1, 8)
		require.NoError(t, j.Snapshot(2, keepNone, func(add func([]byte) error) error {
			fill(t, j, 9, 9)
			return add([]byte("entry"))
		}))
		return crashed(t, o.Dir)
	}
	const snapshot = "snapshot-00000000000000000002"
	cases := map[string]struct {
		harm func(t *testing.T, dir string)
		want string
	}{
		"a log that is not the last, cut": {func(t *testing.T, dir string) {
			edit(t, filepath.Join(dir, files(t, dir)[0]), func(b []byte) []byte { return b[:len(b)-33] })
		}, "is damaged at byte"},
		"a log is missing": {func(t *testing.T, dir string) {
			require.NoError(t, os.Remove(filepath.Join(dir, files(t, dir)[1])))
		}, "a file is missing"},
		"the first log is missing": {func(t *testing.T, dir string) {
			require.NoError(t, os.Remove(filepath.Join(dir, files(t, dir)[0])))
		}, "a file is missing"},
		"the last log is missing": {func(t *testing.T, dir string) {
			names := files(t, dir)
			require.NoError(t, os.Remove(filepath.Join(dir, names[len(names)-2])))
		}, "is missing"},
		"the last log is cut at a frame's border": {func(t *testing.T, dir string) {
			names := files(t, dir)
			edit(t, filepath.Join(dir, names[len(names)-2]), func(b []byte) []byte { return b[:32] })
		}, "cut short"},
		"the snapshot's entry": {func(t *testing.T, dir string) {
			edit(t, filepath.Join(dir, snapshot), func(b []byte) []byte { b[68] ^= 1; return b })
		}, snapshot + " is damaged at byte 32"},
		"the snapshot's end": {func(t *testing.T, dir string) {
			edit(t, filepath.Join(dir, snapshot), func(b []byte) []byte { return b[:len(b)-40] })
		}, "its end is missing"},
		"another format": {func(t *testing.T, dir string) {
			edit(t, filepath.Join(dir, snapshot), func(b []byte) []byte { return journal.Reversion(b, 7) })
		}, "format version 7"},
		"no file of ours": {func(t *testing.T, dir string) {
			require.NoError(t, os.WriteFile(filepath.Join(dir, "log-of-mine"), nil, 0o640))
		}, "log-of-mine"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			dir := snapshotted(t)
			c.harm(t, dir)
			_, _, _, err := open(journal.Options{Dir: dir})
			require.ErrorContains(t, err, c.want)
		})
	}
}

// TestUnfinishedFilesAreRemoved leaves what a crash leaves of a snapshot.
func TestUnfinishedFilesAreRemoved(t *testing.T) {
	dir := written(t, journal.Options{}, 3)
	require.NoError(t, os.WriteFile(filepath.Join(dir, "snapshot-00000000000000000002.aside"), []byte("half"), 0o640))
	_, c := mustOpen(t, journal.Options{Dir: dir})
	require.Equal(t, records(1, 3), c.records)
	require.Equal(t, []string{firstLog}, files(t, dir))
}

// FuzzOpen opens logs of any content: it refuses or drops, and never crashes.
func FuzzOpen(f *testing.F) {
	o := journal.Options{Dir: f.TempDir()}
	j, _, _, err := open(o)
	require.NoError(f, err)
	require.NoError(f, j.Wait(appendText(j, "a")))
	require.NoError(f, j.Wait(appendText(j, "b")))
	require.NoError(f, j.Close())
	whole, err := os.ReadFile(filepath.Join(o.Dir, firstLog))
	require.NoError(f, err)
	f.Add(whole)
	f.Add(whole[:40])
	f.Fuzz(func(t *testing.T, b []byte) {
		dir := t.TempDir()
		require.NoError(t, os.WriteFile(filepath.Join(dir, firstLog), b, 0o640))
		j, _, _, err := open(journal.Options{Dir: dir})
		if err != nil {
			return
		}
		require.NoError(t, j.Wait(appendText(j, "more")))
		require.NoError(t, j.Close())
	})
}
