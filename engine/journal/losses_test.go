package journal_test

import (
	"bytes"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tidegate/tidegate/engine/journal"
	"github.com/tidegate/tidegate/internal/dirtest"
)

const (
	acknowledged = 14 // records of what kept makes
	keptFrom     = 3  // the first that must be there
)

// kept makes a directory of several logs, the oldest of which only followers of the
// records need, and a snapshot. All records in it were acknowledged.
func kept(t *testing.T) (content map[string][]byte) {
	t.Helper()
	o := journal.Options{Dir: dirtest.New(t), LogBytes: 100}
	j, _ := mustOpen(t, o)
	fill(t, j, 1, 9)
	require.NoError(t, j.Snapshot(8, keptFrom, func(add func([]byte) error) error { return add([]byte("entry")) }))
	fill(t, j, 10, acknowledged)
	content = contents(t, o.Dir)
	require.NoError(t, j.Close())
	return content
}

// contents are the files of a directory.
func contents(t *testing.T, dir string) map[string][]byte {
	t.Helper()
	content := map[string][]byte{}
	entries, err := os.ReadDir(dir)
	require.NoError(t, err)
	for _, e := range entries {
		b, err := os.ReadFile(filepath.Join(dir, e.Name()))
		require.NoError(t, err)
		content[e.Name()] = b
	}
	return content
}

// refill makes a directory hold these files and no other.
func refill(t *testing.T, dir string, content map[string][]byte) {
	t.Helper()
	for name := range contents(t, dir) {
		if _, ok := content[name]; !ok {
			require.NoError(t, os.Remove(filepath.Join(dir, name)))
		}
	}
	for name, b := range content {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), b, 0o640))
	}
}

// verdict is what opening a directory comes to.
type verdict struct {
	err     error
	said    string
	records []string // behind the snapshot and before it
}

func (v *verdict) holds(want []string) bool {
	return v.err == nil && len(v.records) >= len(want) && slices.Equal(v.records[len(v.records)-len(want):], want)
}

func openLost(t *testing.T, dir string) (v verdict) {
	t.Helper()
	var c content
	j, said, err := openAll(journal.Options{Dir: dir}, &c, func(_ uint64, b []byte) error {
		v.records = append(v.records, string(b))
		return nil
	})
	if err == nil {
		require.NoError(t, j.Close())
	}
	v.err, v.said, v.records = err, said, append(v.records, c.records...)
	return v
}

// borders are the sizes of a file at which a frame ends, and 0.
func borders(b []byte) []int {
	at := []int{0}
	for size := 32; size <= len(b); {
		at = append(at, size)
		if size+32 > len(b) {
			break
		}
		size += 32 + int(b[size+4]) + int(b[size+5])<<8
	}
	return at
}

// harm takes something from a file: all of it, or its end. size -1: the file is
// missing.
type harm struct {
	name string
	size int
}

func (h harm) of(content map[string][]byte) map[string][]byte {
	content = maps.Clone(content)
	if h.size < 0 {
		delete(content, h.name)
	} else if b := content[h.name]; h.size < len(b) {
		content[h.name] = b[:h.size]
	}
	return content
}

// TestNothingIsLostInSilence takes files away and cuts them short: every file at
// every byte, and every two of them at every frame's border. The directory is
// refused, or everything acknowledged is there. It may be opened with less only
// when the file that knows better is gone as well, and then it says so.
func TestNothingIsLostInSilence(t *testing.T) {
	whole, dir := kept(t), dirtest.New(t)
	want := records(keptFrom, acknowledged)
	names := slices.Sorted(maps.Keys(whole))
	check := func(harms ...harm) {
		content, reachHarmed := whole, false
		for _, h := range harms {
			content = h.of(content)
			reachHarmed = reachHarmed || h.name == reachName
		}
		refill(t, dir, content)
		v := openLost(t, dir)
		switch {
		case v.holds(want):
		case v.err == nil:
			require.True(t, reachHarmed, "%v: lost in silence: %q", harms, v.records)
			require.Contains(t, v.said, "is not known", "%v", harms)
		default:
			require.ErrorContains(t, v.err, dir, "%v", harms)
			require.ErrorContains(t, v.err, "restore the directory", "%v", harms)
			left := contents(t, dir)
			delete(left, "LOCK") // it may be new
			content = harm{"LOCK", -1}.of(content)
			require.True(t, maps.EqualFunc(left, content, bytes.Equal), "%v: what is refused is left alone", harms)
		}
	}
	check()
	for _, name := range names {
		if name == "LOCK" {
			continue
		}
		for size := -1; size < len(whole[name]); size++ {
			check(harm{name, size})
		}
	}
	for i, one := range names {
		for _, other := range names[i+1:] {
			for _, a := range append(borders(whole[one]), -1) {
				for _, b := range append(borders(whole[other]), -1) {
					check(harm{one, a}, harm{other, b})
				}
			}
		}
	}
}

// TestAllFilesAreMissing leaves the lock alone in a directory: it was used before.
func TestAllFilesAreMissing(t *testing.T) {
	dir := dirtest.New(t)
	refill(t, dir, map[string][]byte{"LOCK": nil})
	require.Contains(t, openLost(t, dir).said, "is not known")
}

// TestWhatIsLeftCanBeServed removes the file that an error names.
func TestWhatIsLeftCanBeServed(t *testing.T) {
	dir := dirtest.New(t)
	content := kept(t)
	last := slices.Sorted(maps.Keys(content))[len(content)-2] // before the snapshot
	refill(t, dir, harm{last, 32}.of(content))
	path := filepath.Join(dir, reachName)
	require.ErrorContains(t, openLost(t, dir).err, "remove "+path+" to serve what is left")
	require.NoError(t, os.Remove(path))
	v := openLost(t, dir)
	require.NoError(t, v.err)
	require.Contains(t, v.said, "is not known")
	require.Empty(t, openLost(t, dir).said, "once is enough")
}
