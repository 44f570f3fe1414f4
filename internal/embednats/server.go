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

// DefaultListen is the default address: the usual port of NATS, reachable only from
// this machine.
const DefaultListen = "127.0.0.1:4222"

const (
	defaultName         = "tidegate"
	defaultReadyTimeout = 30 * time.Second // a directory with much in it takes a while
	readyPoll           = 50 * time.Millisecond

	// maxConnections of the server and maxSubscriptions of each connection keep a program in
	// a loop from taking the machine's memory: many times what a machine's services need.
	maxConnections   = 1000
	maxSubscriptions = 10_000
	maxPort          = 1<<16 - 1
)

// Options configure a server. Zero values select the defaults.
type Options struct {
	Dir          string        // where JetStream keeps its files; required, made if it is not there
	Listen       string        // host:port; port 0 takes a free one. Default DefaultListen
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

// Start returns a server that accepts connections. If ctx ends or
// Options.ReadyTimeout passes first, it stops the server and returns an error.
// Mistakes in the Options are reported as *ListenError, *InUseError or *DirError.
//
// The server neither installs signal handlers nor ends the process. The caller stops
// it with Shutdown.
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
		MaxPayload: o.MaxPayload, MaxConn: maxConnections, MaxSubs: maxSubscriptions, NoSigs: true,
	})
	if err != nil {
		return nil, errors.Join(fmt.Errorf("make the NATS server: %w", err), lock.Close())
	}
	s := &Server{server: ns, lock: lock}
	log := newServerLog(o.Log)
	ns.SetLoggerV2(log, false, false, false)
	ns.Start() // returns once the directory is read; the listener comes up beside it
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

// splitListen reads host:port. Port 0 selects a free port, for which the server uses
// RANDOM_PORT; the server itself reads 0 as the default port.
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

// waitReady waits until the server listens, reports a fatal, or the time is over. The
// server has no notification, so waitReady polls.
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

// explain turns the server's fatal into a ListenError or DirError. With these options,
// only the address and the directory can keep the server from starting.
func explain(fatal error, o Options) error {
	var network *net.OpError
	if errors.As(fatal, &network) {
		return &ListenError{Listen: o.Listen, Err: network}
	}
	return &DirError{Dir: o.Dir, Err: fatal}
}

// URL returns the address of the server for other processes.
func (s *Server) URL() string { return s.server.ClientURL() }

// InProcess returns an option that connects a client in this process without a
// socket. The client then ignores its URL.
func (s *Server) InProcess() nats.Option { return nats.InProcessServer(s.server) }

// Check returns nil while the server and JetStream run. The server turns JetStream off
// when the disk is full.
func (s *Server) Check(context.Context) error {
	switch {
	case !s.server.Running():
		return errors.New("the NATS server does not run")
	case !s.server.JetStreamEnabled():
		return errors.New("JetStream is off: is the disk full?")
	}
	return nil
}

// Shutdown closes all connections, flushes JetStream to the disk and releases the
// directory. It returns when all of this is done. Further calls have no effect.
func (s *Server) Shutdown() {
	s.once.Do(func() {
		s.server.Shutdown()
		s.server.WaitForShutdown()
		_ = s.lock.Close() // the lock goes with the descriptor, whatever Close says
	})
}
