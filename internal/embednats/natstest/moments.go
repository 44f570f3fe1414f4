package natstest

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/stretchr/testify/require"
)

// Moment is a copy of the files of a running server, as a loss of power would have left
// them.
type Moment struct{ dir string }

// Moment copies the server's files. The server may be running.
func (s *Server) Moment(tb testing.TB) *Moment {
	tb.Helper()
	m := &Moment{dir: tb.TempDir()}
	require.NoError(tb, copyTree(streamsOf(m.dir), streamsOf(s.options.StoreDir)))
	return m
}

// Drop removes the copy before the end of the test, which would remove it otherwise.
func (m *Moment) Drop() { _ = os.RemoveAll(m.dir) } // the test's end tries again

// GoBack restarts the server with the messages of a stream from a moment, and its
// consumers from another moment, or unchanged if consumers is nil. A stream that the
// moment does not contain is removed.
func (s *Server) GoBack(tb testing.TB, stream string, messages, consumers *Moment) {
	tb.Helper()
	s.AllGoBack(tb, map[string]*Moment{stream: messages}, consumers)
}

// AllGoBack does the same as GoBack for several streams, each with its own moment.
func (s *Server) AllGoBack(tb testing.TB, messages map[string]*Moment, consumers *Moment) {
	tb.Helper()
	s.Stop()
	for stream, moment := range messages {
		s.PutBack(tb, stream, moment, consumers)
	}
	s.run(tb)
}

// PutBack does the work of GoBack between the stop and the start.
func (s *Server) PutBack(tb testing.TB, stream string, messages, consumers *Moment) {
	tb.Helper()
	here := filepath.Join(streamsOf(s.options.StoreDir), stream)
	newer := filepath.Join(tb.TempDir(), "consumers")
	from := here
	if consumers != nil {
		from = filepath.Join(streamsOf(consumers.dir), stream)
	}
	require.NoError(tb, copyTree(newer, filepath.Join(from, "obs")))
	require.NoError(tb, os.RemoveAll(here))
	older := filepath.Join(streamsOf(messages.dir), stream)
	if _, err := os.Stat(older); errors.Is(err, fs.ErrNotExist) {
		return
	}
	require.NoError(tb, copyTree(here, older))
	require.NoError(tb, os.RemoveAll(filepath.Join(here, "obs")))
	require.NoError(tb, copyTree(filepath.Join(here, "obs"), newer))
	require.NoError(tb, os.RemoveAll(filepath.Dir(newer)))
}

// streamsOf returns the directory of the streams of the only account.
func streamsOf(dir string) string { return filepath.Join(dir, "jetstream", "$G", "streams") }

// copyTree copies a folder, which may be missing. It ignores files that vanish during
// the copy, because the server no longer needs them.
func copyTree(to, from string) error {
	return filepath.WalkDir(from, func(path string, d fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err != nil {
			return err
		}
		rest, err := filepath.Rel(from, path)
		if err != nil {
			return err
		}
		if d.IsDir() {
			return os.MkdirAll(filepath.Join(to, rest), 0o750)
		}
		return copyFile(filepath.Join(to, rest), path)
	})
}

func copyFile(to, from string) (err error) {
	in, err := os.Open(from) //nolint:gosec // a file of the test's own server
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, in.Close()) }()
	out, err := os.Create(to) //nolint:gosec // in a folder of the test's own
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, out.Close()) }()
	_, err = io.Copy(out, in)
	return err
}

// Aside runs another server on the files of this server, which must be stopped. The
// clients of this server cannot find the other.
func (s *Server) Aside(tb testing.TB, do func(*nats.Conn)) {
	tb.Helper()
	o := s.options.Clone()
	o.Port = server.RANDOM_PORT
	other := &Server{options: o}
	other.run(tb)
	defer other.Stop()
	nc, err := nats.Connect(other.ClientURL())
	require.NoError(tb, err)
	defer nc.Close()
	do(nc)
}
