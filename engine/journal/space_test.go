package journal_test

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/tidegate/tidegate/engine/journal"
	"github.com/tidegate/tidegate/internal/dirtest"
)

// room lets so many bytes be written, and then no more.
func (s *disks) room(bytes int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.fails = fmt.Errorf("planted: %w", syscall.ENOSPC)
	s.onWrite = func(b []byte) (int, bool) {
		n := min(bytes, len(b))
		bytes -= n
		return n, n < len(b)
	}
}

// TestAFullDisk has a write find no room, at every byte of it and of the files
// that come with it: callers are told, nothing is settled, and once there is room
// all is written that was not, in order, without a restart. A crash in between
// takes nothing that was acknowledged.
func TestAFullDisk(t *testing.T) {
	for _, logBytes := range []int64{80, 1 << 20} { // with a new log for the write, and without
		for room := range 32 + 32 + frameSize { // header, end mark, frame
			var s disks
			o := journal.Options{Dir: dirtest.New(t), Wrap: s.wrap, LogBytes: logBytes}
			j, _ := mustOpen(t, o)
			fill(t, j, 1, 2)
			s.room(room)
			err := j.Wait(appendText(j, record(3)))
			if err == nil {
				require.NoError(t, j.Close())
				continue // enough room
			}
			require.ErrorIs(t, err, syscall.ENOSPC)
			require.ErrorIs(t, j.Wait(appendText(j, record(4))), syscall.ENOSPC, "who comes later")
			require.ErrorIs(t, j.Retry(), syscall.ENOSPC)
			require.ErrorIs(t, j.Snapshot(2, keepNone, func(func([]byte) error) error { return nil }), syscall.ENOSPC)
			require.NoError(t, j.Wait(2), "what was safe stays so")
			require.False(t, failed(j))
			_, c, _, err := open(journal.Options{Dir: crashed(t, o.Dir)})
			require.NoError(t, err)
			require.Equal(t, records(1, 2), c.records)

			s.room(1 << 20)
			require.NoError(t, j.Retry())
			require.NoError(t, j.Err())
			require.NoError(t, j.Wait(4), "all of it was written")
			fill(t, j, 5, 6)
			require.Equal(t, records(1, 6), read(t, j, 1, 6))
			_, c, said, err := open(journal.Options{Dir: crashed(t, o.Dir)})
			require.NoError(t, err)
			require.Empty(t, said)
			require.Equal(t, records(1, 6), c.records)
			require.NoError(t, j.Close())
		}
	}
}

func failed(j *journal.Journal) bool {
	select {
	case <-j.Failed():
		return true
	default:
		return false
	}
}

// TestAFailedFsyncIsNotTriedAgain has an fsync find no room: whether the data is
// still there a second fsync would not tell.
func TestAFailedFsyncIsNotTriedAgain(t *testing.T) {
	var s disks
	j, _ := mustOpen(t, journal.Options{Dir: t.TempDir(), Wrap: s.wrap})
	fill(t, j, 1, 1)
	s.set(nil, func() error { return syscall.ENOSPC })
	require.ErrorIs(t, j.Wait(appendText(j, "lost")), syscall.ENOSPC)
	require.True(t, failed(j))
	s.set(nil, nil)
	syncs := s.count()
	require.ErrorIs(t, j.Retry(), syscall.ENOSPC)
	require.Equal(t, syncs, s.count())
}

// TestADirectoryThatCannotBeForced fails when a new log's entry is forced to the
// disk: a crash might take the log away.
func TestADirectoryThatCannotBeForced(t *testing.T) {
	planted := errors.New("planted")
	var broken error
	o := journal.Options{Dir: t.TempDir(), LogBytes: 50, SyncDir: func(string) error { return broken }}
	j, _ := mustOpen(t, o)
	fill(t, j, 1, 1)
	broken = planted
	require.ErrorIs(t, j.Wait(appendText(j, "lost")), planted)
	require.True(t, failed(j))
	require.NoError(t, j.Wait(1))
}

// TestEachCauseIsLoggedOnce waits for room again and again.
func TestEachCauseIsLoggedOnce(t *testing.T) {
	var s disks
	log := &lines{}
	o := journal.Options{Dir: t.TempDir(), Wrap: s.wrap, Log: log.logger()}
	j, err := journal.Open(o, journal.Restore{})
	require.NoError(t, err)
	for range 2 {
		s.room(0)
		for range 5 {
			require.Error(t, j.Wait(appendText(j, "x")))
			require.Error(t, j.Retry())
		}
		s.room(1 << 20)
		require.NoError(t, j.Retry())
	}
	require.Equal(t, 2, log.count("level=ERROR"), "%s", log)
	require.Equal(t, 2, log.count("room again"), "%s", log)
	s.set(nil, func() error { return errors.New("planted") })
	for range 3 {
		require.Error(t, j.Wait(appendText(j, "x")))
	}
	require.Equal(t, 3, log.count("level=ERROR"), "%s", log)
	require.Contains(t, log.String(), "planted")
	require.Error(t, j.Close())
}

// TestDisksOfAnySize has many writers on a disk that fills up and is emptied, at
// any byte: what was acknowledged is there in order, and what was refused comes
// once at most.
func TestDisksOfAnySize(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		var s disks
		o := journal.Options{Dir: dirtest.New(t), Wrap: s.wrap, LogBytes: rapid.Int64Range(50, 300).Draw(rt, "log bytes")}
		j, _, _, err := open(o)
		require.NoError(rt, err)
		var order sync.Mutex
		var appended []string
		acknowledged := map[string]bool{}
		for range rapid.IntRange(1, 6).Draw(rt, "rounds") {
			s.room(rapid.IntRange(0, 400).Draw(rt, "room"))
			var all sync.WaitGroup
			for range 4 {
				all.Go(func() {
					order.Lock()
					text := record(len(appended))
					position := appendText(j, text)
					appended = append(appended, text)
					order.Unlock()
					err := j.Wait(position)
					order.Lock()
					defer order.Unlock()
					acknowledged[text] = err == nil
				})
			}
			all.Wait()
			if rapid.Bool().Draw(rt, "crash") {
				_, c, _, err := open(journal.Options{Dir: crashed(t, o.Dir)})
				require.NoError(rt, err)
				require.True(rt, slices.Equal(appended[:len(c.records)], c.records), "%q", c.records)
				for _, text := range appended[len(c.records):] {
					require.False(rt, acknowledged[text], "%s was lost", text)
				}
			}
			s.room(1 << 20)
			require.NoError(rt, j.Retry())
		}
		require.NoError(rt, j.Wait(uint64(len(appended))))
		require.NoError(rt, j.Close())
		_, c, _, err := open(o)
		require.NoError(rt, err)
		require.Equal(rt, appended, c.records)
	})
}
