package deploy_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/nats-io/nats.go"
	"github.com/stretchr/testify/require"

	"github.com/tidegate/tidegate/pkg/api"
)

// A tenant takes neither the server's connections nor its memory from others: connections,
// subscriptions and messages of its account are bounded, and those of other accounts are not
// affected.
func TestAccountsAreBounded(t *testing.T) {
	setPasswords(t, "acme", "beta")
	config := natsFiles(t, "acme", "beta")
	file := filepath.Join(filepath.Dir(config), "tenants", "acme.conf")
	text, err := os.ReadFile(file)
	require.NoError(t, err)
	require.Contains(t, string(text), "max_connections: 1000\n")
	few := strings.Replace(string(text), "max_connections: 1000\n", "max_connections: 3\n", 1)
	require.NoError(t, os.WriteFile(file, []byte(few), 0o600))
	w := newWorldOn(t, startNATS(t, config), "acme", "beta")
	w.runAdmission(t)

	t.Run("connections", func(t *testing.T) {
		for _, user := range []string{"acme", "acme-override", "acme-admin"} {
			w.nats.connect(t, user)
		}
		_, err := nats.Connect(w.nats.ClientURL(), nats.UserInfo("acme", passwordOf("acme")))
		require.ErrorContains(t, err, "maximum account active connections exceeded")
		w.nats.connect(t, "beta")
	})
	t.Run("subscriptions", func(t *testing.T) {
		nc := w.nats.connect(t, "beta")
		for range 100 {
			_, err := nc.SubscribeSync(nc.NewInbox())
			require.NoError(t, err)
		}
		require.NoError(t, nc.Flush())
		require.NoError(t, nc.LastError())
		_, err := nc.SubscribeSync(nc.NewInbox())
		require.NoError(t, err)
		require.NoError(t, nc.Flush())
		require.ErrorIs(t, nc.LastError(), nats.ErrMaxSubscriptionsExceeded)
	})
	t.Run("messages", func(t *testing.T) {
		nc := w.nats.connect(t, "beta")
		reply, err := nc.Request(api.Subject("beta", api.VerbAcquire), make([]byte, 2*api.MaxPayload-1024), patience)
		require.NoError(t, err)
		require.Equal(t, api.CodePayloadTooLarge, api.DecodeError(reply.Data).Code, "a request that is somewhat too large is told so")
		closed := make(chan struct{})
		other := w.nats.connect(t, "beta", nats.NoReconnect(), nats.ClosedHandler(func(*nats.Conn) { close(closed) }))
		require.NoError(t, other.Publish(api.Subject("beta", api.VerbAcquire), make([]byte, 2*api.MaxPayload+1)))
		<-closed
		require.ErrorContains(t, other.LastError(), "Maximum Payload Violation")
	})
	for _, name := range []string{"operators.conf", "services.conf"} {
		text, err := os.ReadFile(filepath.Join(filepath.Dir(config), name))
		require.NoError(t, err)
		require.Regexp(t, `(?s)limits: \{\s+max_connections: \d+.*max_subscriptions: \d+`, string(text), name)
	}
}
