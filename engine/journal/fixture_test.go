package journal_test

import (
	"bytes"
	"log/slog"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tidegate/tidegate/engine/journal"
)

// keepNone lets a snapshot remove all logs that it stands for.
const keepNone = math.MaxUint64

// content is what a journal was found to hold; what its snapshot stands for is
// left out.
type content struct{ entries, records []string }

// open opens a directory and returns what was in it, and what was logged.
func open(o journal.Options) (*journal.Journal, content, string, error) {
	var c content
	j, log, err := openAll(o, &c, func(uint64, []byte) error { return nil })
	return j, c, log, err
}

// openAll also shows the records that the snapshot stands for.
func openAll(o journal.Options, c *content, past func(uint64, []byte) error) (*journal.Journal, string, error) {
	var log bytes.Buffer
	o.Log = slog.New(slog.NewTextHandler(&log, nil))
	j, err := journal.Open(o, journal.Restore{
		Entry:  func(b []byte) error { c.entries = append(c.entries, string(b)); return nil },
		Past:   past,
		Record: func(_ uint64, b []byte) error { c.records = append(c.records, string(b)); return nil },
	})
	return j, log.String(), err
}

func mustOpen(t *testing.T, o journal.Options) (*journal.Journal, content) {
	t.Helper()
	j, c, log, err := open(o)
	require.NoError(t, err)
	require.Empty(t, log)
	t.Cleanup(func() { _ = j.Close() })
	return j, c
}

func appendText(j *journal.Journal, text string) uint64 {
	return j.Append(func(b []byte) []byte { return append(b, text...) })
}

// fill appends the records "record-1" and so on, each in a frame of its own.
func fill(t *testing.T, j *journal.Journal, from, to int) {
	t.Helper()
	for i := from; i <= to; i++ {
		require.NoError(t, j.Wait(appendText(j, record(i))))
	}
}

func record(i int) string { return "record-" + strconv.Itoa(i) }

func records(from, to int) []string {
	var out []string
	for i := from; i <= to; i++ {
		out = append(out, record(i))
	}
	return out
}

// files are the logs and snapshots of a directory.
func files(t *testing.T, dir string) []string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	require.NoError(t, err)
	var out []string
	for _, e := range entries {
		if e.Name() != "LOCK" && e.Name() != reachName {
			out = append(out, e.Name())
		}
	}
	return out
}

const reachName = "REACH"

// reached says in a directory that logs reached no further.
func reached(t *testing.T, dir string, settled, synced uint64) {
	t.Helper()
	require.NoError(t, os.WriteFile(filepath.Join(dir, reachName), journal.ReachFile(settled, synced), 0o640))
}

// crashed copies a directory as a crash would leave it.
func crashed(t *testing.T, dir string) string {
	t.Helper()
	to := t.TempDir()
	require.NoError(t, os.CopyFS(filepath.Join(to, "copy"), os.DirFS(dir)))
	return filepath.Join(to, "copy")
}

// lines is a log that may be read while it is written.
type lines struct {
	mu sync.Mutex
	b  bytes.Buffer // guarded by mu
}

func (l *lines) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(b)
}

func (l *lines) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

func (l *lines) count(text string) int { return strings.Count(l.String(), text) }

func (l *lines) logger() *slog.Logger { return slog.New(slog.NewTextHandler(l, nil)) }

// disk is a file that can be held up and made to fail.
type disk struct {
	journal.File
	s *disks
}

// disks are all files of one journal.
type disks struct {
	mu      sync.Mutex
	syncs   int                      // guarded by mu
	onSync  func() error             // guarded by mu
	onWrite func([]byte) (int, bool) // guarded by mu; true: write so much, and fail
	fails   error                    // how; guarded by mu; nil: with an error that is about no disk
}

func (s *disks) writeError() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.fails != nil {
		return s.fails
	}
	return os.ErrDeadlineExceeded
}

func (s *disks) wrap(f journal.File) journal.File { return disk{File: f, s: s} }

func (s *disks) set(onWrite func([]byte) (int, bool), onSync func() error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.onWrite, s.onSync = onWrite, onSync
}

func (s *disks) count() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.syncs
}

func (d disk) Write(b []byte) (int, error) {
	d.s.mu.Lock()
	hook := d.s.onWrite
	d.s.mu.Unlock()
	if hook != nil {
		if n, full := hook(b); full {
			n, _ = d.File.Write(b[:n])
			return n, d.s.writeError()
		}
	}
	return d.File.Write(b)
}

func (d disk) Sync() error {
	d.s.mu.Lock()
	d.s.syncs++
	hook := d.s.onSync
	d.s.mu.Unlock()
	if hook != nil {
		if err := hook(); err != nil {
			return err
		}
	}
	return d.File.Sync()
}
