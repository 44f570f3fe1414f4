package embednats

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"strconv"
	"sync"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
)

// DefaultListen is the default listen address: NATS's usual port, reachable from this
// machine only.
const DefaultListen = "127.0.0.1:4222"

const (
	defaultName         = "tidegate"
	defaultReadyTimeout = 30 * time.Second // a directory with much data takes long to read
	readyPoll           = 50 * time.Millisecond
	maxPort             = 1<<16 - 1
)

// Options holds the settings of a server. Zero values mean the defaults.
type Options struct {
	Dir          string        // JetStream's directory; required, created if missing
	Listen       string        // host:port; port 0 selects a free port. Default DefaultListen
	Name         string        // of the server, as clients see it. Default tidegate
	MaxPayload   int32         // of a message, in bytes. Default 1 MiB, the server's own
	ReadyTimeout time.Duration // how long Start waits. Default 30 s
	Log          *slog.Logger  // required; notices go to its debug level
}

// Server is a running NATS server.
type Server struct {
	server *server.Server
	lock   *os.File
	once   sync.Once
}

// Start returns a server that accepts connections. It gives up when ctx ends or
// Options.ReadyTimeout is over, and leaves nothing running then. Its errors of
// use are *ListenError, *InUseError and *DirError.
//
// The server neither installs signal handlers nor ends the process: stopping is
// the caller's, with Shutdown.
func Start(ctx context.Context, o Options) (*Server, error) {
	o = o.withDefaults()
	if o.Log == nil {
		return nil, errors.New("embednats: Log is required")
	}
	host, port, err := splitListen(o.Listen)
	if err != nil {
		return nil, &ListenError{Listen: o.Listen, Err: err}
	}
	lock, err := lockDir(o.Dir)
	if err != nil {
		return nil, err
	}
	ns, err := server.NewServer(&server.Options{
		ServerName: o.Name, Host: host, Port: port,
		JetStream: true, StoreDir: o.Dir, SyncAlways: true, // settlements and the feed must not be forgotten
		MaxPayload: o.MaxPayload, NoSigs: true,
	})
	if err != nil {
		return nil, errors.Join(fmt.Errorf("make the NATS server: %w", err), lock.Close())
	}
	s := &Server{server: ns, lock: lock}
	log := newServerLog(o.Log)
	ns.SetLoggerV2(log, false, false, false)
	ns.Start() // returns after it has read the directory; the listener starts in the background
	if err := s.waitReady(ctx, log, o); err != nil {
		s.Shutdown()
		return nil, err
	}
	return s, nil
}

func (o Options) withDefaults() Options {
	if o.Listen == "" {
		o.Listen = DefaultListen
	}
	if o.Name == "" {
		o.Name = defaultName
	}
	if o.ReadyTimeout == 0 {
		o.ReadyTimeout = defaultReadyTimeout
	}
	return o
}

// splitListen parses host:port. It translates port 0, which selects a free port by
// convention but the default port in the server's options, to RANDOM_PORT.
func splitListen(listen string) (host string, port int, err error) {
	host, text, err := net.SplitHostPort(listen)
	if err != nil {
		return "", 0, err
	}
	port, err = strconv.Atoi(text)
	if err != nil || port < 0 || port > maxPort {
		return "", 0, fmt.Errorf("%q is no port", text)
	}
	if port == 0 {
		port = server.RANDOM_PORT
	}
	return host, port, nil
}

// waitReady waits until the server listens, and fails if the server reports a fatal,
// ctx ends or the time is over. It polls, because the server sends no signal.
func (s *Server) waitReady(ctx context.Context, log *serverLog, o Options) error {
	late := time.NewTimer(o.ReadyTimeout)
	defer late.Stop()
	for {
		select {
		case fatal := <-log.fatal:
			return explain(fatal, o)
		case <-ctx.Done():
			return fmt.Errorf("start the NATS server: %w", ctx.Err())
		case <-late.C:
			return fmt.Errorf("the NATS server was not ready within %s: is there much in %s, or is the disk busy?", o.ReadyTimeout, o.Dir)
		default:
		}
		if s.server.ReadyForConnections(readyPoll) {
			return nil
		}
	}
}

// explain converts the server's fatal to an error that names the correction. With
// these options, a start fails for two reasons: the address and the directory.
func explain(fatal error, o Options) error {
	var network *net.OpError
	if errors.As(fatal, &network) {
		return &ListenError{Listen: o.Listen, Err: network}
	}
	return &DirError{Dir: o.Dir, Err: fatal}
}

// URL returns the address at which other processes reach the server.
func (s *Server) URL() string { return s.server.ClientURL() }

// InProcess makes a client in this process reach the server without a socket;
// the URL it is given then does not matter.
func (s *Server) InProcess() nats.Option { return nats.InProcessServer(s.server) }

// Check returns nil while the server runs and JetStream with it, which the
// server turns off when the disk is full.
func (s *Server) Check(context.Context) error {
	switch {
	case !s.server.Running():
		return errors.New("the NATS server does not run")
	case !s.server.JetStreamEnabled():
		return errors.New("JetStream is off: is the disk full?")
	}
	return nil
}

// Shutdown closes all connections, brings JetStream to disk and gives the
// directory free. It returns when all of that is done; once is enough, and more
// do no harm.
func (s *Server) Shutdown() {
	s.once.Do(func() {
		s.server.Shutdown()
		s.server.WaitForShutdown()
		_ = s.lock.Close() // closing the descriptor releases the lock, even if Close fails
	})
}
