package process

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/http/pprof"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"github.com/sourcegraph/conc"
	"github.com/sourcegraph/conc/iter"
)

// DefaultAdminListen is where the admin server listens unless told otherwise.
const DefaultAdminListen = "127.0.0.1:9464"

const (
	headerTimeout = 5 * time.Second
	closeTimeout  = 2 * time.Second // for requests under way once the server is to stop
	checkTimeout  = 2 * time.Second // for all checks of a request
)

// AdminOptions say how an admin server is to run.
type AdminOptions struct {
	Listen   string               // host:port; port 0 takes a free port. Default DefaultAdminListen
	Registry *prometheus.Registry // the metrics of /metrics; required
	Log      *slog.Logger         // required
}

// Admin is the HTTP server for operators of the process:
//
//	/metrics        the registry's metrics
//	/healthz        200 while the process answers, and every vital check passes, else 503
//	/readyz         200 when every check passes, else 503; a line for each
//	/debug/pprof/   profiles, only where Listen is on loopback: they show memory
//
// On loopback it serves no web pages of other origins: see GuardHost.
type Admin struct {
	o        AdminOptions
	listener net.Listener
	loopback bool

	mu     sync.Mutex
	checks []namedCheck // guarded by mu
}

type namedCheck struct {
	name  string
	check func(context.Context) error
	vital bool // /healthz depends on it as well
}

// NewRegistry returns a registry with the metrics of the Go runtime, of the
// process, and tidegate_build_info, with the version as a label.
func NewRegistry(version string) *prometheus.Registry {
	registry := prometheus.NewRegistry()
	build := prometheus.NewGauge(prometheus.GaugeOpts{
		Name:        "tidegate_build_info",
		Help:        "Always 1; the label is the running version.",
		ConstLabels: prometheus.Labels{"version": version},
	})
	build.Set(1)
	registry.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}), build)
	return registry
}

// ListenError says that the admin server cannot listen where it should.
type ListenError struct {
	Listen string // as asked for
	Err    error
}

// Error names the remedy.
func (e *ListenError) Error() string {
	if errors.Is(e.Err, syscall.EADDRINUSE) {
		return fmt.Sprintf("metrics and health cannot be served on %s: something else listens there, maybe another tidegate; stop it, or give another address with --admin-listen (port 0 takes a free one)", e.Listen)
	}
	return fmt.Sprintf("metrics and health cannot be served on %q: %v; give an address of this machine with --admin-listen, such as %s", e.Listen, e.Err, DefaultAdminListen)
}

// Unwrap returns the cause.
func (e *ListenError) Unwrap() error { return e.Err }

// ListenAdmin takes the address, so that an address in use is known before
// anything else starts. Requests are answered from Run on. The error of an
// address is a *ListenError.
func ListenAdmin(ctx context.Context, o AdminOptions) (*Admin, error) {
	if o.Registry == nil || o.Log == nil {
		return nil, errors.New("process: Registry and Log are required")
	}
	if o.Listen == "" {
		o.Listen = DefaultAdminListen
	}
	var config net.ListenConfig
	listener, err := config.Listen(ctx, "tcp", o.Listen)
	if err != nil {
		return nil, &ListenError{Listen: o.Listen, Err: err}
	}
	address, ok := listener.Addr().(*net.TCPAddr)
	return &Admin{o: o, listener: listener, loopback: ok && address.IP.IsLoopback()}, nil
}

// Address is where the server listens, host:port.
func (a *Admin) Address() string { return a.listener.Addr().String() }

// AddCheck adds a check of readiness. The checks of a request
// run at the same time and get a context that ends after 2 s; they must heed it.
func (a *Admin) AddCheck(name string, check func(context.Context) error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.checks = append(a.checks, namedCheck{name: name, check: check})
}

// AddVitalCheck adds a check of readiness and health, of a part
// without which the process is of no use.
func (a *Admin) AddVitalCheck(name string, check func(context.Context) error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.checks = append(a.checks, namedCheck{name: name, check: check, vital: true})
}

// Run answers requests until stop ends; see Component. It gives requests under way
// a moment, and drops them when abort ends.
func (a *Admin) Run(stop, abort context.Context, ready func()) error {
	server := &http.Server{
		Handler:           a.handler(),
		ReadHeaderTimeout: headerTimeout,
		ErrorLog:          slog.NewLogLogger(Lines(a.o.Log, "the admin server says"), slog.LevelWarn),
	}
	var serving conc.WaitGroup
	defer serving.Wait()
	failed := make(chan error, 1)
	serving.Go(func() { failed <- server.Serve(a.listener) })
	ready()
	select {
	case err := <-failed:
		return fmt.Errorf("serve on %s: %w", a.Address(), err)
	case <-stop.Done():
	}
	ctx, cancel := context.WithTimeout(abort, closeTimeout)
	defer cancel()
	if server.Shutdown(ctx) == nil {
		return nil
	}
	return server.Close() // clients that still hold a connection had their time
}

// Close gives the address free where Run is never called.
func (a *Admin) Close() error { return a.listener.Close() }

func (a *Admin) handler() http.Handler {
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", promhttp.HandlerFor(a.o.Registry, promhttp.HandlerOpts{}))
	mux.HandleFunc("GET /healthz", a.healthz)
	mux.HandleFunc("GET /readyz", a.readyz)
	if a.loopback {
		mux.HandleFunc("/debug/pprof/", pprof.Index)
		mux.HandleFunc("/debug/pprof/cmdline", pprof.Cmdline)
		mux.HandleFunc("/debug/pprof/profile", pprof.Profile)
		mux.HandleFunc("/debug/pprof/symbol", pprof.Symbol)
		mux.HandleFunc("/debug/pprof/trace", pprof.Trace)
		return GuardHost(mux, nil, answerText)
	}
	return mux
}

// healthz answers with a line for each vital check that fails.
func (a *Admin) healthz(w http.ResponseWriter, r *http.Request) {
	code, page := http.StatusOK, "alive\n"
	for _, result := range a.results(r.Context(), func(c namedCheck) bool { return c.vital }) {
		if result.err == nil {
			continue
		}
		if code == http.StatusOK {
			code, page = http.StatusServiceUnavailable, ""
		}
		page += result.String()
	}
	answer(w, code, page)
}

// readyz answers with a line for each check, in the order they were added.
func (a *Admin) readyz(w http.ResponseWriter, r *http.Request) {
	code, page := http.StatusOK, new(strings.Builder)
	for _, result := range a.results(r.Context(), func(namedCheck) bool { return true }) {
		if result.err != nil {
			code = http.StatusServiceUnavailable
		}
		page.WriteString(result.String())
	}
	answer(w, code, page.String())
}

// result is the outcome of a check.
type result struct {
	name string
	err  error
}

func (r result) String() string {
	if r.err != nil {
		return fmt.Sprintf("%s: %v\n", r.name, r.err)
	}
	return r.name + ": ok\n"
}

// results runs the checks that are wanted, all at the same time.
func (a *Admin) results(ctx context.Context, wanted func(namedCheck) bool) []result {
	a.mu.Lock()
	var checks []namedCheck
	for _, c := range a.checks {
		if wanted(c) {
			checks = append(checks, c)
		}
	}
	a.mu.Unlock()
	ctx, cancel := context.WithTimeout(ctx, checkTimeout)
	defer cancel()
	return iter.Map(checks, func(c *namedCheck) result { return result{c.name, c.check(ctx)} })
}

func answerText(w http.ResponseWriter, code int, text string) { answer(w, code, text+"\n") }

func answer(w http.ResponseWriter, code int, text string) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.WriteHeader(code)
	_, _ = w.Write([]byte(text)) // the caller may be gone
}
