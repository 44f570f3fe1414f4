package journal_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/tidegate/tidegate/engine/journal"
)

func TestRecordsAreThereAgain(t *testing.T) {
	for _, policy := range []journal.Sync{journal.Always, journal.Never, journal.Sync(time.Millisecond)} {
		t.Run(policy.String(), func(t *testing.T) {
			o := journal.Options{Dir: filepath.Join(t.TempDir(), "made", "if", "need", "be"), Sync: policy, LogBytes: 200}
			for from := 1; from < 40; from += 10 {
				j, c := mustOpen(t, o)
				require.Equal(t, records(1, from-1), c.records)
				require.EqualValues(t, from-1, j.Position(), "positions go on")
				fill(t, j, from, from+9)
				require.NoError(t, j.Close())
				require.ErrorIs(t, j.Close(), journal.ErrClosed)
				require.ErrorIs(t, j.Wait(appendText(j, "late")), journal.ErrClosed)
			}
			require.Greater(t, len(files(t, o.Dir)), 2, "several logs")
		})
	}
}

// TestConcurrentRecords has many writers, few frames, and loses nothing.
func TestConcurrentRecords(t *testing.T) {
	const writers, each = 32, 50
	o := journal.Options{Dir: t.TempDir(), LogBytes: 4 << 10}
	j, _ := mustOpen(t, o)
	var order sync.Mutex
	var want []string
	var all sync.WaitGroup
	for w := range writers {
		all.Go(func() {
			for i := range each {
				text := fmt.Sprintf("%d/%d", w, i)
				order.Lock()
				position := appendText(j, text)
				want = append(want, text)
				order.Unlock()
				if err := j.Wait(position); err != nil {
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
	_, c, _, err := open(journal.Options{Dir: crashed(t, o.Dir)})
	require.NoError(t, err)
	require.Equal(t, want, c.records)
}

// TestWaitersShareAnFsync holds the disk up until all others have come.
func TestWaitersShareAnFsync(t *testing.T) {
	var s disks
	j, _ := mustOpen(t, journal.Options{Dir: t.TempDir(), Wrap: s.wrap})
	entered, release := make(chan struct{}, 100), make(chan struct{})
	before := s.count()
	s.set(nil, func() error { entered <- struct{}{}; <-release; return nil })
	var all sync.WaitGroup
	wait := func(position uint64) {
		all.Go(func() {
			if err := j.Wait(position); err != nil {
				t.Error(err)
			}
		})
	}
	wait(appendText(j, "first"))
	<-entered
	for i := range 64 {
		wait(appendText(j, record(i)))
	}
	close(release)
	all.Wait()
	require.Equal(t, 2, s.count()-before)
}

func TestSecondOpenIsRefused(t *testing.T) {
	o := journal.Options{Dir: t.TempDir()}
	j, _ := mustOpen(t, o)
	_, _, _, err := open(o)
	require.ErrorIs(t, err, journal.ErrInUse)
	require.ErrorContains(t, err, o.Dir)
	require.NoError(t, j.Close())
	mustOpen(t, o)
}

// TestAFailedDiskIsFinal makes a write or an fsync fail in the middle of a
// frame: nobody is told that all is well from then on, and what was
// acknowledged before is there after.
func TestAFailedDiskIsFinal(t *testing.T) {
	broken := errors.New("planted")
	for name, fail := range map[string]func(*disks){
		"fsync": func(s *disks) { s.set(nil, func() error { return broken }) },
		"write": func(s *disks) { s.set(func(b []byte) (int, bool) { return len(b) / 2, true }, nil) },
	} {
		t.Run(name, func(t *testing.T) {
			var s disks
			o := journal.Options{Dir: t.TempDir(), Wrap: s.wrap}
			j, _ := mustOpen(t, o)
			fill(t, j, 1, 3)
			fail(&s)
			require.ErrorContains(t, j.Wait(appendText(j, "lost")), o.Dir)
			s.set(nil, nil) // the disk is well again, which does not count
			require.Error(t, j.Wait(appendText(j, "later")))
			require.Error(t, j.Err())
			require.NoError(t, j.Wait(3), "what was safe stays so")
			require.Error(t, j.Close())
			_, c, _, err := open(journal.Options{Dir: o.Dir})
			require.NoError(t, err, "the directory is free")
			require.Equal(t, records(1, 3), c.records[:3])
			require.NotContains(t, c.records, "later")
		})
	}
}

func TestSnapshotReplacesLogs(t *testing.T) {
	o := journal.Options{Dir: t.TempDir(), LogBytes: 200}
	j, _ := mustOpen(t, o)
	fill(t, j, 1, 30)
	logs := len(files(t, o.Dir))
	at := j.Position()
	require.NoError(t, j.Snapshot(at, keepNone, func(add func([]byte) error) error {
		fill(t, j, 31, 40) // writes go on
		return errors.Join(add([]byte("one")), add([]byte("two")))
	}))
	require.Less(t, len(files(t, o.Dir)), logs)
	copied := crashed(t, o.Dir)
	_, c := mustOpen(t, journal.Options{Dir: copied})
	require.Equal(t, content{entries: []string{"one", "two"}, records: records(31, 40)}, c)

	require.NoError(t, j.Snapshot(j.Position(), keepNone, func(add func([]byte) error) error { return add([]byte("three")) }))
	_, c = mustOpen(t, journal.Options{Dir: crashed(t, o.Dir)})
	require.Equal(t, content{entries: []string{"three"}}, c)
	require.Len(t, files(t, o.Dir), 2)
}

func TestAFailedSnapshotChangesNothing(t *testing.T) {
	planted := errors.New("planted")
	var s disks
	o := journal.Options{Dir: t.TempDir(), LogBytes: 200, Wrap: s.wrap}
	j, _ := mustOpen(t, o)
	fill(t, j, 1, 10)
	before := files(t, o.Dir)
	err := j.Snapshot(10, keepNone, func(func([]byte) error) error { return planted })
	require.ErrorIs(t, err, planted)
	err = j.Snapshot(10, keepNone, func(add func([]byte) error) error {
		s.set(func(b []byte) (int, bool) { return 1, true }, nil)
		return add(make([]byte, 100<<10))
	})
	require.ErrorIs(t, err, os.ErrDeadlineExceeded)
	s.set(nil, nil)
	require.Equal(t, before, files(t, o.Dir))
	fill(t, j, 11, 11)
}

// TestHistories is appends, snapshots, crashes and restarts in any order,
// against a slice.
func TestHistories(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		o := journal.Options{Dir: t.TempDir(), LogBytes: int64(rapid.IntRange(1, 400).Draw(rt, "log bytes")), Sync: journal.Never}
		var want []string // all records ever
		cut := 0          // so many are in the snapshot
		j, _, _, err := open(o)
		require.NoError(rt, err)
		rt.Repeat(map[string]func(*rapid.T){
			"append": func(rt *rapid.T) {
				for range rapid.IntRange(1, 5).Draw(rt, "records") {
					want = append(want, rapid.StringN(0, 20, 60).Draw(rt, "record"))
					appendText(j, want[len(want)-1])
				}
				require.NoError(rt, j.Wait(j.Position()))
			},
			"snapshot": func(rt *rapid.T) {
				require.NoError(rt, j.Snapshot(j.Position(), keepNone, func(add func([]byte) error) error {
					for _, r := range want {
						if err := add([]byte(r)); err != nil {
							return err
						}
					}
					return nil
				}))
				cut = len(want)
			},
			"reopen": func(rt *rapid.T) {
				require.NoError(rt, j.Close())
				var c content
				j, c, _, err = open(o)
				require.NoError(rt, err)
				require.Equal(rt, want, append(c.entries, c.records...))
				require.Len(rt, c.entries, cut)
				require.EqualValues(rt, len(want), j.Position())
			},
		})
		require.NoError(rt, j.Close())
	})
}

func TestSyncTexts(t *testing.T) {
	for text, want := range map[string]journal.Sync{"always": journal.Always, "never": journal.Never, "100ms": journal.Sync(100 * time.Millisecond)} {
		var s journal.Sync
		require.NoError(t, s.UnmarshalText([]byte(text)))
		require.Equal(t, want, s)
		require.Equal(t, text, s.String())
	}
	for _, text := range []string{"", "sometimes", "0s", "-1s", "100"} {
		require.ErrorContains(t, new(journal.Sync).UnmarshalText([]byte(text)), "neither")
	}
}
