package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"syscall"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/tidegate/tidegate/internal/process"
)

// adminFlags configure the endpoints for monitoring a service.
type adminFlags struct {
	AdminListen string `name:"admin-listen" default:"127.0.0.1:9464" placeholder:"ADDR" help:"Address of metrics, health and pprof; default: 127.0.0.1:9464. Port 0 picks a free port."`
	logFlags
}

const (
	headerTimeout   = 5 * time.Second
	shutdownTimeout = 2 * time.Second
)

// serve runs body, the component called name, and serves its metrics and health at
// AdminListen. body may add health checks, and calls ready once it has started. A stop
// before that is no error.
func (f *adminFlags) serve(ctx context.Context, log *slog.Logger, name string, body func(ctx context.Context, admin *process.Admin, registry *prometheus.Registry, ready func()) error) error {
	registry := process.NewRegistry(thisVersion().Version)
	admin, err := process.ListenAdmin(ctx, process.AdminOptions{Listen: f.AdminListen, Registry: registry, Log: log})
	if err != nil {
		return err
	}
	f.AdminListen = admin.Address()
	group := process.NewGroup(process.GroupOptions{Log: log, Now: time.Now},
		process.Component{Name: "admin", Run: admin.Run},
		process.Component{Name: name, Run: func(stop, _ context.Context, ready func()) error { return body(stop, admin, registry, ready) }})
	admin.AddCheck("components", group.Check)
	return group.Run(ctx, context.WithoutCancel(ctx)) // a second signal kills
}

// checkListen refuses a malformed address.
func checkListen(flag, address string) error {
	if _, _, err := net.SplitHostPort(address); err != nil {
		return usageError{fmt.Errorf("%s %q is not an address such as 127.0.0.1:4222", flag, address)}
	}
	return nil
}

// networkFlags say from where listeners without access control can be reached.
type networkFlags struct {
	TrustNetwork bool     `name:"trust-network" help:"Allow listeners on other interfaces than loopback, such as a container network. They have no access control: every client that reaches them has full access."`
	AllowHost    []string `name:"allow-host" placeholder:"NAME" help:"Host name under which clients reach the store, such as that of its container; repeatable. Default: IP addresses and localhost, so that no web page can reach it by a name of its own."`
}

// check refuses a malformed address, and an address that other machines can reach unless the
// network is trusted. full says what a client of the listener may do.
func (f networkFlags) check(flag, address, full string) error {
	if err := checkListen(flag, address); err != nil {
		return err
	}
	host, port, _ := net.SplitHostPort(address)
	if ip := net.ParseIP(host); f.TrustNetwork || host == "localhost" || ip != nil && ip.IsLoopback() {
		return nil
	}
	return usageError{fmt.Errorf("%s %s is not on loopback, and every client that reaches it %s: write 127.0.0.1:%s, or add --trust-network if each machine that can reach it may do that",
		flag, address, full, port)}
}

// Rights of clients of a listener without access control.
const (
	fullNATS  = "can spend for, and change the limits of, every tenant, without a password"
	fullStore = "can read and change everything stored, as the store checks no signatures"
	fullAdmin = "sees metrics and health, without a password"
)

// guard serves the store only to clients that are no web pages of another origin.
func (f networkFlags) guard(store http.Handler) http.Handler {
	return process.GuardHost(store, f.AllowHost, func(w http.ResponseWriter, status int, message string) {
		w.Header().Set("Content-Type", "application/x-amz-json-1.0")
		w.WriteHeader(status)
		_ = json.NewEncoder(w).Encode(map[string]string{ // the caller may be gone
			"__type": "com.amazon.coral.service#AccessDeniedException", "message": message,
		})
	})
}

// listenHTTP serves until stop is called, which gives requests under way a
// moment. It returns the address that it listens on.
func listenHTTP(ctx context.Context, flag, address string, handler http.Handler, log *slog.Logger) (bound string, stop func(), err error) {
	var config net.ListenConfig
	listener, err := config.Listen(ctx, "tcp", address)
	if err != nil {
		return "", nil, explainListen(flag, address, err)
	}
	server := &http.Server{Handler: handler, ReadHeaderTimeout: headerTimeout, ErrorLog: slog.NewLogLogger(process.Lines(log, "the HTTP server says"), slog.LevelWarn)}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
			log.ErrorContext(ctx, "an HTTP listener failed", "address", address, "error", err)
		}
	}()
	return listener.Addr().String(), func() {
		ctx, cancel := context.WithTimeout(context.Background(), shutdownTimeout)
		defer cancel()
		if server.Shutdown(ctx) != nil {
			_ = server.Close() // open connections have had their time
		}
		<-ended
	}, nil
}

// explainListen adds advice to the error of a listen call.
func explainListen(flag, address string, err error) error {
	err = fmt.Errorf("listen on %s: %w", address, err)
	if errors.Is(err, syscall.EADDRINUSE) {
		return advise(err, "Something else listens there; is `tidegate up` running already? Stop it, or give another address with %s (port 0 takes a free one).", flag)
	}
	return advise(err, "Give an address of this machine with %s.", flag)
}
