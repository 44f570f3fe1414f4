// Package natstest gives a test its own NATS server: the real server, with JetStream,
// on a free port of this machine.
//
//	s := natstest.Start(t)
//	nc := s.Connect(t)
//	s.Stop()     // an outage
//	s.Restart(t) // the end of the outage; nc reconnects by itself
package natstest

import (
	"net"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/require"
)

// patience is the timeout on a machine that is busy with other tests. Every operation
// that works takes less.
const patience = time.Minute

// Server is a NATS server of a test.
type Server struct {
	*server.Server // the current server, or the last

	options *server.Options
}

// Start runs a server with JetStream until the test ends.
func Start(tb testing.TB) *Server {
	tb.Helper()
	return StartWith(tb, &server.Options{JetStream: true})
}

// StartWith runs a server with the test's options, except for the address and StoreDir:
// the server keeps its files in t.TempDir(), whatever directory a configuration names.
func StartWith(tb testing.TB, o *server.Options) *Server {
	tb.Helper()
	o = o.Clone()
	o.Host, o.Port, o.StoreDir, o.NoLog, o.NoSigs = "127.0.0.1", server.RANDOM_PORT, tb.TempDir(), true, true
	s := &Server{options: o}
	tb.Cleanup(s.Stop) // before the files are removed, also if it does not come up
	s.run(tb)
	o.Port = s.Addr().(*net.TCPAddr).Port
	return s
}

func (s *Server) run(tb testing.TB) {
	tb.Helper()
	ns, err := server.NewServer(s.options.Clone()) // NewServer writes to its options
	require.NoError(tb, err)
	s.Server = ns
	s.Start()
	require.True(tb, s.ReadyForConnections(patience), "the NATS server does not accept connections")
}

// Stop ends the server like a signal, and returns when it no longer writes its files.
func (s *Server) Stop() {
	if s.Server == nil { // its options are refused
		return
	}
	s.Shutdown()
	s.WaitForShutdown()
}

// Restart runs a new server at the same address, with the same files.
func (s *Server) Restart(tb testing.TB) {
	tb.Helper()
	s.Stop()
	s.run(tb)
}

// Connect returns a connection that reconnects immediately after an outage. It is
// closed when the test ends.
func (s *Server) Connect(tb testing.TB, options ...nats.Option) *nats.Conn {
	tb.Helper()
	options = append([]nats.Option{nats.Timeout(patience), nats.MaxReconnects(-1), nats.ReconnectWait(10 * time.Millisecond), nats.ReconnectBufSize(-1)}, options...)
	nc, err := nats.Connect(s.ClientURL(), options...)
	require.NoError(tb, err)
	tb.Cleanup(nc.Close)
	return nc
}

// Drained waits until all consumers of a stream have acknowledged all of its messages.
func Drained(tb testing.TB, stream jetstream.Stream) {
	tb.Helper()
	require.Eventually(tb, func() bool {
		list := stream.ListConsumers(tb.Context())
		for info := range list.Info() {
			if info.NumPending > 0 || info.NumAckPending > 0 {
				return false
			}
		}
		return list.Err() == nil
	}, patience, 20*time.Millisecond, "the stream %s is not handled to its end", stream.CachedInfo().Config.Name)
}
