package process_test

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tidegate/tidegate/internal/process"
)

func listen(t *testing.T, address string) *process.Admin {
	t.Helper()
	a, err := process.ListenAdmin(t.Context(), process.AdminOptions{
		Listen: address, Registry: process.NewRegistry("1.2.3"), Log: slog.New(slog.DiscardHandler),
	})
	require.NoError(t, err)
	return a
}

// serve runs an admin server until the test ends, and requires a clean end.
func serve(t *testing.T, a *process.Admin) {
	t.Helper()
	stop, stopNow := context.WithCancel(t.Context())
	ready, ended := make(chan struct{}), make(chan error, 1)
	go func() { ended <- a.Run(stop, context.WithoutCancel(stop), func() { close(ready) }) }()
	<-ready
	t.Cleanup(func() {
		stopNow()
		require.NoError(t, <-ended)
	})
}

func get(t *testing.T, a *process.Admin, path string) (code int, body string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+a.Address()+path, http.NoBody)
	require.NoError(t, err)
	resp, err := http.DefaultClient.Do(req)
	require.NoError(t, err)
	b, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	require.NoError(t, resp.Body.Close())
	return resp.StatusCode, string(b)
}

func TestAdminAnswers(t *testing.T) {
	a := listen(t, "127.0.0.1:0")
	serve(t, a)
	for path, want := range map[string]struct {
		code int
		says string
	}{
		"/healthz":                {http.StatusOK, "alive"},
		"/readyz":                 {http.StatusOK, ""},
		"/metrics":                {http.StatusOK, `tidegate_build_info{version="1.2.3"} 1`},
		"/debug/pprof/":           {http.StatusOK, "goroutine"},
		"/debug/pprof/heap":       {http.StatusOK, ""},
		"/debug/pprof/cmdline":    {http.StatusOK, ""},
		"/debug/pprof/symbol":     {http.StatusOK, "num_symbols"},
		"/somewhere/entirely/odd": {http.StatusNotFound, ""},
	} {
		code, body := get(t, a, path)
		require.Equal(t, want.code, code, path)
		require.Contains(t, body, want.says, path)
	}
}

func TestReadinessNamesItsChecks(t *testing.T) {
	a := listen(t, "127.0.0.1:0")
	serve(t, a)
	a.AddCheck("store", func(context.Context) error { return nil })
	code, body := get(t, a, "/readyz")
	require.Equal(t, http.StatusOK, code)
	require.Equal(t, "store: ok\n", body)

	a.AddCheck("nats", func(context.Context) error { return errors.New("not connected") })
	a.AddCheck("clock", func(ctx context.Context) error {
		_, limited := ctx.Deadline()
		require.True(t, limited)
		return nil
	})
	code, body = get(t, a, "/readyz")
	require.Equal(t, http.StatusServiceUnavailable, code)
	require.Equal(t, "store: ok\nnats: not connected\nclock: ok\n", body)
	code, _ = get(t, a, "/healthz")
	require.Equal(t, http.StatusOK, code, "to be alive is another thing")
}

func TestVitalChecksAreOfHealthToo(t *testing.T) {
	a := listen(t, "127.0.0.1:0")
	serve(t, a)
	var broken error
	a.AddCheck("nats", func(context.Context) error { return errors.New("not connected") })
	a.AddVitalCheck("store", func(context.Context) error { return broken })
	code, body := get(t, a, "/healthz")
	require.Equal(t, http.StatusOK, code)
	require.Equal(t, "alive\n", body)
	broken = errors.New("no room")
	code, body = get(t, a, "/healthz")
	require.Equal(t, http.StatusServiceUnavailable, code)
	require.Equal(t, "store: no room\n", body)
	code, body = get(t, a, "/readyz")
	require.Equal(t, http.StatusServiceUnavailable, code)
	require.Equal(t, "nats: not connected\nstore: no room\n", body)
}

// Profiles show memory, so only whoever is on the machine gets them.
func TestProfilesStayOnTheMachine(t *testing.T) {
	a := listen(t, "0.0.0.0:0")
	serve(t, a)
	code, _ := get(t, a, "/debug/pprof/heap")
	require.Equal(t, http.StatusNotFound, code)
	code, _ = get(t, a, "/metrics")
	require.Equal(t, http.StatusOK, code)
}

func TestATakenAdminAddressSaysWhatToDo(t *testing.T) {
	a := listen(t, "127.0.0.1:0")
	o := process.AdminOptions{Registry: process.NewRegistry("1"), Log: slog.New(slog.DiscardHandler), Listen: a.Address()}
	_, err := process.ListenAdmin(t.Context(), o)
	var taken *process.ListenError
	require.ErrorAs(t, err, &taken)
	require.ErrorIs(t, err, syscall.EADDRINUSE)
	require.ErrorContains(t, err, "--admin-listen")
	require.NoError(t, a.Close())
	b, err := process.ListenAdmin(t.Context(), o)
	require.NoError(t, err, "Close gives the address free")
	require.NoError(t, b.Close())

	o.Listen = "nowhere"
	_, err = process.ListenAdmin(t.Context(), o)
	require.ErrorContains(t, err, "of this machine")
	_, err = process.ListenAdmin(t.Context(), process.AdminOptions{})
	require.ErrorContains(t, err, "required")
}

// TestAdminIsAComponent runs it the way processes do: readiness says what is
// going on to the end, and a request under way is answered.
func TestAdminIsAComponent(t *testing.T) {
	a := listen(t, "127.0.0.1:0")
	stop, stopNow := context.WithCancel(t.Context())
	begun, finish := make(chan struct{}), make(chan struct{})
	g := process.NewGroup(process.GroupOptions{Log: slog.New(slog.DiscardHandler), Now: time.Now},
		process.Component{Name: "admin", Run: a.Run},
		process.Component{Name: "work", Run: func(stop, _ context.Context, ready func()) error {
			close(begun)
			<-finish
			ready()
			<-stop.Done()
			<-finish
			return nil
		}})
	a.AddCheck("components", g.Check)
	ended := make(chan error, 1)
	go func() { ended <- g.Run(stop, t.Context()) }()

	<-begun
	_, body := get(t, a, "/readyz")
	require.Equal(t, "components: starting: work is not ready\n", body)
	finish <- struct{}{}
	require.Eventually(t, func() bool { code, _ := get(t, a, "/readyz"); return code == http.StatusOK }, time.Minute, time.Millisecond)
	stopNow()
	require.Eventually(t, func() bool { _, body := get(t, a, "/readyz"); return body == "components: stopping\n" }, time.Minute, time.Millisecond)
	finish <- struct{}{}
	require.NoError(t, <-ended)
}

// A listener that breaks ends the component, and so the process.
func TestABrokenListenerIsAnError(t *testing.T) {
	a := listen(t, "127.0.0.1:0")
	require.NoError(t, a.Close())
	require.ErrorContains(t, a.Run(t.Context(), t.Context(), func() {}), "serve on")
}
