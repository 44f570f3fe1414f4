package journal_test

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/tidegate/tidegate/engine/journal"
)

// read is what Read shows.
func read(t require.TestingT, j *journal.Journal, from, to int) []string {
	var out []string
	next := uint64(from)
	require.NoError(t, j.Read(next, uint64(to), func(position uint64, b []byte) error {
		require.Equal(t, next, position)
		next++
		out = append(out, string(b))
		return nil
	}))
	return out
}

// TestReadAgain reads any range of records that were kept, through snapshots and
// restarts, while the last log grows.
func TestReadAgain(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		o := journal.Options{Dir: t.TempDir(), LogBytes: int64(rapid.IntRange(200, 2000).Draw(rt, "log bytes")), Sync: journal.Never}
		written, kept := 0, 1
		j, _, _, err := open(o)
		require.NoError(rt, err)
		rt.Repeat(map[string]func(*rapid.T){
			"append": func(rt *rapid.T) {
				for range rapid.IntRange(1, 40).Draw(rt, "records") {
					written++
					appendText(j, record(written))
				}
				require.NoError(rt, j.Wait(j.Position()))
			},
			"snapshot": func(rt *rapid.T) {
				kept = rapid.IntRange(kept, written+1).Draw(rt, "keep")
				require.NoError(rt, j.Snapshot(j.Position(), uint64(kept), func(func([]byte) error) error { return nil }))
			},
			"reopen": func(rt *rapid.T) {
				require.NoError(rt, j.Close())
				var c content
				var past []string
				j, _, err = openAll(o, &c, func(_ uint64, b []byte) error { past = append(past, string(b)); return nil })
				require.NoError(rt, err)
				all := append(past, c.records...)
				require.GreaterOrEqual(rt, len(all), written+1-kept)
				require.Equal(rt, records(written+1-len(all), written), all)
			},
			"read": func(rt *rapid.T) {
				if kept > written {
					return
				}
				from := rapid.IntRange(kept, written).Draw(rt, "from")
				to := rapid.IntRange(from, written).Draw(rt, "to")
				require.Equal(rt, records(from, to), read(rt, j, from, to))
			},
		})
		require.NoError(rt, j.Close())
	})
}

func TestReadOfWhatIsGone(t *testing.T) {
	o := journal.Options{Dir: t.TempDir(), LogBytes: 200}
	j, _ := mustOpen(t, o)
	fill(t, j, 1, 30)
	require.NoError(t, j.Snapshot(30, 20, func(func([]byte) error) error { return nil }))
	never := func(uint64, []byte) error { return errors.New("shown") }
	require.ErrorIs(t, j.Read(1, 30, never), journal.ErrCut)
	require.Equal(t, records(20, 30), read(t, j, 20, 30))

	names := files(t, o.Dir)
	path := filepath.Join(o.Dir, names[1])
	edit(t, path, func(b []byte) []byte { b[len(b)-1] ^= 1; return b })
	var damage *journal.DamageError
	require.ErrorAs(t, j.Read(20, 30, func(uint64, []byte) error { return nil }), &damage)
	require.Equal(t, path, damage.File)
	require.NoError(t, os.Remove(path))
	require.ErrorIs(t, j.Read(20, 30, func(uint64, []byte) error { return nil }), journal.ErrCut)

	planted := errors.New("planted")
	require.ErrorIs(t, j.Read(30, 30, func(uint64, []byte) error { return planted }), planted)
}

// TestDamageOfWhatIsKept flips a byte of a log that the snapshot stands for:
// the directory is refused, for the stream would have a hole.
func TestDamageOfWhatIsKept(t *testing.T) {
	o := journal.Options{Dir: t.TempDir(), LogBytes: 200}
	j, _ := mustOpen(t, o)
	fill(t, j, 1, 30)
	require.NoError(t, j.Snapshot(30, 1, func(func([]byte) error) error { return nil }))
	dir := crashed(t, o.Dir)
	path := filepath.Join(dir, files(t, dir)[0])
	edit(t, path, func(b []byte) []byte { b[100] ^= 1; return b })
	_, _, _, err := open(journal.Options{Dir: dir})
	var damage *journal.DamageError
	require.ErrorAs(t, err, &damage)
	require.Equal(t, path, damage.File)
}
