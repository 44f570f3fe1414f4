package journal_test

import (
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tidegate/tidegate/engine/journal"
	"github.com/tidegate/tidegate/internal/dirtest"
)

// moment is what a directory was at one moment, as far as it matters for a crash.
type moment struct {
	kept         int               // the first record that must be there
	acknowledged int               // the last
	now          map[string][]byte // its files
	synced       map[string]int    // so many bytes of them are on the disk, by name
	entries      map[string][]byte // the files that were there when its entries were forced to the disk
	staleReach   []byte            // what REACH was when it was forced to the disk
}

// recorder notes a directory before and after each write and each sync.
type recorder struct {
	t   *testing.T
	dir string

	mu           sync.Mutex
	kept         int
	acknowledged int
	synced       map[string]int
	entries      map[string][]byte
	moments      []moment
}

func (r *recorder) note() {
	r.mu.Lock()
	defer r.mu.Unlock()
	now := contents(r.t, r.dir)
	r.moments = append(r.moments, moment{
		kept: r.kept, acknowledged: r.acknowledged, now: now, synced: maps.Clone(r.synced), entries: r.entries, staleReach: r.entries[reachName],
	})
}

// must sets which records a crash may not take.
func (r *recorder) must(kept, acknowledged int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.kept, r.acknowledged = kept, acknowledged
}

func (r *recorder) syncDir(string) error {
	r.note()
	r.mu.Lock()
	r.entries = contents(r.t, r.dir)
	r.mu.Unlock()
	r.note()
	return nil
}

// recorded is a file whose writes and syncs are noted.
type recorded struct {
	journal.File
	r    *recorder
	name string
}

func (r *recorder) wrap(f journal.File) journal.File {
	path := f.(interface{ Name() string }).Name()
	return recorded{File: f, r: r, name: strings.TrimSuffix(filepath.Base(path), ".aside")}
}

func (f recorded) Write(b []byte) (int, error) {
	n, err := f.File.Write(b[:len(b)/2])
	if err == nil {
		f.r.note()
		var more int
		more, err = f.File.Write(b[len(b)/2:])
		n += more
	}
	f.r.note()
	return n, err
}

func (f recorded) Sync() error {
	now := contents(f.r.t, f.r.dir)
	b, ok := now[f.name]
	if !ok {
		b = now[f.name+".aside"]
	}
	f.r.mu.Lock()
	f.r.synced[f.name] = len(b)
	f.r.mu.Unlock()
	f.r.note()
	return nil
}

// history is rolls, snapshots and a restart.
func (r *recorder) history(policy journal.Sync) {
	t := r.t
	for session := range 2 {
		j, _, err := openAll(journal.Options{Dir: r.dir, LogBytes: 100, Sync: policy, Wrap: r.wrap, SyncDir: r.syncDir},
			&content{}, func(uint64, []byte) error { return nil })
		require.NoError(t, err)
		write := func(n int) {
			for range n {
				require.NoError(t, j.Wait(appendText(j, record(int(j.Position())+1))))
				r.must(r.kept, int(j.Position()))
			}
		}
		write(6)
		keep := 3 + 5*session
		r.must(keep, r.acknowledged)
		require.NoError(t, j.Snapshot(j.Position()-1, uint64(keep), func(add func([]byte) error) error { return add([]byte("entry")) }))
		write(3)
		require.NoError(t, j.Close())
	}
}

// powerCuts returns what a power cut may leave of the directory: of each file only
// what was forced to the disk or all, an older REACH or the newest, and any of the
// entries that were made or removed since the directory was forced.
func (m *moment) powerCuts() []map[string][]byte {
	var pending []string
	for name := range m.now {
		if _, ok := m.entries[name]; !ok {
			pending = append(pending, name)
		}
	}
	for name := range m.entries {
		if _, ok := m.now[name]; !ok {
			pending = append(pending, name)
		}
	}
	slices.Sort(pending)
	var cuts []map[string][]byte
	for choice := range 1 << (len(pending) + 2) {
		left := maps.Clone(m.now)
		if choice&1 != 0 && m.staleReach != nil && left[reachName] != nil {
			left[reachName] = m.staleReach
		}
		if choice&2 != 0 {
			for name, b := range left {
				if strings.HasPrefix(name, "log-") {
					left[name] = b[:min(len(b), m.synced[strings.TrimSuffix(name, ".aside")])]
				}
			}
		}
		for i, name := range pending {
			if choice&(4<<i) == 0 {
				continue
			}
			if b, ok := m.entries[name]; ok {
				left[name] = b
			} else {
				delete(left, name)
			}
		}
		cuts = append(cuts, left)
	}
	return cuts
}

// TestEveryCrash crashes at every write and every sync of a history, as a killed
// process does and as a power cut does: the directory opens, and everything
// acknowledged is there. Without fsync it may be less, and then it says so.
func TestEveryCrash(t *testing.T) {
	for _, policy := range []journal.Sync{journal.Always, journal.Never} {
		t.Run(policy.String(), func(t *testing.T) {
			r := &recorder{t: t, dir: dirtest.New(t), kept: 1, synced: map[string]int{}, entries: map[string][]byte{}}
			r.history(policy)
			dir := dirtest.New(t)
			require.Greater(t, len(r.moments), 100)
			for i, m := range r.moments {
				for k, left := range m.powerCuts() {
					refill(t, dir, left)
					v := openLost(t, dir)
					require.NoError(t, v.err, "moment %d, cut %d", i, k)
					want := records(m.kept, m.acknowledged)
					killed := k == 0
					lost := strings.Contains(v.said, "acknowledged writes are lost")
					switch {
					case contains(v.records, want) && !lost:
					case policy == journal.Always || killed:
						require.Equal(t, want, v.records, "moment %d, cut %d: %s", i, k, v.said)
					default:
						require.True(t, lost || k&1 != 0, "moment %d, cut %d: lost in silence", i, k)
					}
				}
			}
		})
	}
}

// contains reports whether all of part is in whole, in order and without gaps.
func contains(whole, part []string) bool {
	return strings.Contains("\n"+strings.Join(whole, "\n")+"\n", "\n"+strings.Join(append(part, ""), "\n"))
}
