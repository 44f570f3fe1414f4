package main

import (
	"fmt"
	"log/slog"
	"net"
	"os"
	"strconv"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
)

// natsServer is the NATS server in this process.
type natsServer struct{ server *server.Server }

// natsPatience is how long the server may take to start; a JetStream directory
// with much in it takes a while.
const natsPatience = 30 * time.Second

// startNATS starts a server with JetStream in dir.
func startNATS(listen, dir string, log *slog.Logger) (*natsServer, error) {
	host, port, err := claimAddress(listen)
	if err != nil {
		return nil, explainListen("--nats-listen", listen, err)
	}
	if err := os.MkdirAll(dir, dirMode); err != nil {
		return nil, fmt.Errorf("make the directory of NATS: %w", err)
	}
	s, err := server.NewServer(&server.Options{
		ServerName: "tidegate-up", Host: host, Port: port,
		JetStream: true, StoreDir: dir, NoSigs: true,
	})
	if err != nil {
		return nil, fmt.Errorf("make the NATS server: %w", err)
	}
	s.SetLoggerV2(natsLog{log}, false, false, false)
	s.Start()
	if !s.ReadyForConnections(natsPatience) {
		s.Shutdown()
		s.WaitForShutdown()
		return nil, fmt.Errorf("the NATS server did not start on %s: see the lines above", listen)
	}
	return &natsServer{server: s}, nil
}

// claimAddress finds out whether an address is free, and a free port for 0, in
// time to say so well: the server itself only logs it.
func claimAddress(listen string) (host string, port int, err error) {
	l, err := net.Listen("tcp", listen)
	if err != nil {
		return "", 0, err
	}
	defer func() { err = joinClose(err, l) }()
	host, text, err := net.SplitHostPort(l.Addr().String())
	if err != nil {
		return "", 0, err
	}
	port, err = strconv.Atoi(text)
	return host, port, err
}

func joinClose(err error, l net.Listener) error {
	if errClose := l.Close(); err == nil {
		return errClose
	}
	return err
}

func (n *natsServer) url() string { return n.server.ClientURL() }

// inProcess is how a client in this process reaches the server.
func (n *natsServer) inProcess() nats.Option { return nats.InProcessServer(n.server) }

// stop ends the server, its streams flushed.
func (n *natsServer) stop() {
	n.server.Shutdown()
	n.server.WaitForShutdown()
}

// natsLog writes what the server says; what it merely notes is left out.
type natsLog struct{ log *slog.Logger }

func (l natsLog) Noticef(string, ...any) {}
func (l natsLog) Debugf(string, ...any)  {}
func (l natsLog) Tracef(string, ...any)  {}

func (l natsLog) Warnf(format string, args ...any) {
	l.log.Warn("NATS server: " + fmt.Sprintf(format, args...))
}

func (l natsLog) Errorf(format string, args ...any) {
	l.log.Error("NATS server: " + fmt.Sprintf(format, args...))
}

func (l natsLog) Fatalf(format string, args ...any) {
	l.log.Error("NATS server: " + fmt.Sprintf(format, args...))
}
