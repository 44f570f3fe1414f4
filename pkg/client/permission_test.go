package tidegate_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/stretchr/testify/require"

	"github.com/tidegate/tidegate/pkg/api"
	tidegate "github.com/tidegate/tidegate/pkg/client"
)

// guarded is a NATS server that lets the user acme send the given verbs of its namespace.
type guarded struct {
	t      *testing.T
	server *server.Server
	file   string
}

func newGuarded(t *testing.T, verbs ...api.Verb) *guarded {
	t.Helper()
	g := &guarded{t: t, file: filepath.Join(t.TempDir(), "nats.conf")}
	g.write(verbs...)
	g.start(server.RANDOM_PORT)
	return g
}

// start runs the server and what answers every acquire.
func (g *guarded) start(port int) {
	g.t.Helper()
	options, err := server.ProcessConfigFile(g.file)
	require.NoError(g.t, err)
	options.Port = port
	options.NoSigs, options.NoLog = true, true
	g.server, err = server.NewServer(options)
	require.NoError(g.t, err)
	g.server.Start()
	running := g.server
	g.t.Cleanup(func() { running.Shutdown(); running.WaitForShutdown() })
	require.True(g.t, g.server.ReadyForConnections(10*time.Second))
	answer, err := nats.Connect("", nats.InProcessServer(g.server), nats.UserInfo("admission", "secret"))
	require.NoError(g.t, err)
	g.t.Cleanup(answer.Close)
	_, err = answer.Subscribe(api.SubjectAll, func(m *nats.Msg) { _ = m.Respond([]byte(admitted)) })
	require.NoError(g.t, err)
	require.NoError(g.t, answer.Flush())
}

func (g *guarded) write(verbs ...api.Verb) {
	subjects := make([]string, 0, len(verbs))
	for _, verb := range verbs {
		subjects = append(subjects, api.Subject("acme", verb))
	}
	require.NoError(g.t, os.WriteFile(g.file, fmt.Appendf(nil, `listen: 127.0.0.1:-1
authorization { users: [
  { user: admission, password: secret }
  { user: acme, password: hidden, permissions: { publish: %q, subscribe: "_INBOX_acme.>" } }
] }`, subjects), 0o600))
}

// client waits longer than the test for what is never answered.
func (g *guarded) client(namespace string, options ...tidegate.Option) *tidegate.Client {
	g.t.Helper()
	nc, err := nats.Connect("", nats.InProcessServer(g.server), nats.UserInfo("acme", "hidden"), tidegate.InboxPrefix(namespace))
	require.NoError(g.t, err)
	g.t.Cleanup(nc.Close)
	options = append([]tidegate.Option{
		tidegate.WithNamespace(namespace), tidegate.WithTimeout(time.Hour), tidegate.WithOnUnavailable(tidegate.Allow),
	}, options...)
	c, err := tidegate.New(nc, options...)
	require.NoError(g.t, err)
	return c
}

func requireForbidden(t *testing.T, err error, says ...string) {
	t.Helper()
	var refused *tidegate.Error
	require.ErrorAs(t, err, &refused)
	require.Equal(t, api.CodeForbidden, refused.Code)
	for _, part := range append(says, `the user "acme"`) {
		require.Contains(t, refused.Message, part)
	}
	require.NotContains(t, refused.Message, "hidden")
}

// A request that NATS drops for want of a permission is forbidden at once, and is no
// outage that the policy admits.
func TestAMissingPermissionIsForbidden(t *testing.T) {
	g := newGuarded(t, api.VerbAcquire)
	c := g.client("acme")
	_, err := c.Status(t.Context(), "e", "r", nil)
	requireForbidden(t, err, "tidegate.v1.acme.status", "nothing was done")
	for range 3 { // and does not depend on what was refused before
		_, err = c.Acquire(t.Context(), "e", "r", one, tidegate.OverrideLimits(tidegate.Limit{Name: "rpm", Capacity: 1, RefillAmount: 1, RefillPeriodSeconds: 1}))
		requireForbidden(t, err, "tidegate.v1.acme.acquire.override")
	}
	lease, err := c.Acquire(t.Context(), "e", "r", one)
	require.NoError(t, err, "what is permitted goes on")
	require.False(t, lease.Degraded())

	_, err = c.Operator().Services(t.Context(), 50*time.Millisecond)
	requireForbidden(t, err, "$SRV.STATS")

	cancelled, cancel := context.WithCancel(t.Context())
	cancel()
	_, err = c.Status(cancelled, "e", "r", nil)
	require.ErrorIs(t, err, context.Canceled)
}

func TestRepliesThatCannotArriveAreForbidden(t *testing.T) {
	g := newGuarded(t, api.VerbAcquire)
	nc, err := nats.Connect("", nats.InProcessServer(g.server), nats.UserInfo("acme", "hidden"))
	require.NoError(t, err)
	t.Cleanup(nc.Close)
	c, err := tidegate.New(nc, tidegate.WithNamespace("acme"), tidegate.WithTimeout(time.Hour), tidegate.WithOnUnavailable(tidegate.Allow))
	require.NoError(t, err)
	for range 2 {
		_, err = c.Acquire(t.Context(), "e", "r", one)
		requireForbidden(t, err, `"_INBOX"`, "unknown")
	}
}

// Whether a namespace's own credentials were mixed up or its permission was taken away: the
// second request after it is forbidden at the latest.
func TestAPermissionThatIsTakenAwayIsForbidden(t *testing.T) {
	g := newGuarded(t, api.VerbAcquire)
	c := g.client("acme", tidegate.WithTimeout(200*time.Millisecond), tidegate.WithOnUnavailable(tidegate.Block))
	_, err := c.Acquire(t.Context(), "e", "r", one)
	require.NoError(t, err)

	g.write(api.VerbStatus)
	require.NoError(t, g.server.Reload())
	require.Eventually(t, func() bool {
		_, err = c.Acquire(t.Context(), "e", "r", one)
		var down *tidegate.UnavailableError
		return err != nil && !errors.As(err, &down)
	}, 20*time.Second, time.Millisecond)
	requireForbidden(t, err, "tidegate.v1.acme.acquire")

	g.write(api.VerbAcquire)
	require.NoError(t, g.server.Reload())
	require.Eventually(t, func() bool {
		_, err = c.Acquire(t.Context(), "e", "r", one)
		return err == nil
	}, 20*time.Second, time.Millisecond, "a permission that is back counts")
}

// A caller that asks again and again while NATS is away fills no memory, and is answered
// once NATS is back.
func TestAnOutageFillsNoMemory(t *testing.T) {
	g := newGuarded(t, api.VerbAcquire)
	port := g.server.Addr().(*net.TCPAddr).Port //nolint:forcetypeassert // it listens on TCP
	nc, err := nats.Connect(g.server.ClientURL(), nats.UserInfo("acme", "hidden"), tidegate.InboxPrefix("acme"),
		nats.MaxReconnects(-1), nats.ReconnectBufSize(-1), nats.ReconnectWait(time.Millisecond), nats.ReconnectJitter(0, 0))
	require.NoError(t, err)
	t.Cleanup(nc.Close)
	c, err := tidegate.New(nc, tidegate.WithNamespace("acme"))
	require.NoError(t, err)
	_, err = c.Acquire(t.Context(), "e", "r", one)
	require.NoError(t, err)

	g.server.Shutdown()
	g.server.WaitForShutdown()
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	for range 50_000 {
		_, err = c.Acquire(t.Context(), "e", "r", one)
		var down *tidegate.UnavailableError
		require.ErrorAs(t, err, &down)
	}
	runtime.GC()
	runtime.ReadMemStats(&after)
	require.Less(t, int64(after.HeapAlloc)-int64(before.HeapAlloc), int64(4<<20))
	g.start(port)
	require.Eventually(t, func() bool {
		_, err = c.Acquire(t.Context(), "e", "r", one)
		return err == nil
	}, 20*time.Second, time.Millisecond)
}
