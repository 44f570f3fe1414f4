package main

import (
	"encoding/json"
	"testing"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/stretchr/testify/require"

	"github.com/tidegate/tidegate/internal/embednats/natstest"
)

// What gives access to NATS or to AWS is neither logged nor printed, whatever
// becomes of the connections.
func TestServicesKeepWhatGivesAccess(t *testing.T) {
	const password, key = "swordfish-71", "wJalrXUtnFEMIK7MDENG"
	t.Setenv("AWS_ACCESS_KEY_ID", "AKIDEXAMPLE")
	t.Setenv("AWS_SECRET_ACCESS_KEY", key)
	store := newWorld()
	_, stop := runApart(store, "dynamodb", "--listen", "127.0.0.1:0", "--json")
	defer stop()
	said, ok := store.stdout.wait("\n", nil)
	require.True(t, ok)
	var ready struct{ DynamoDB string }
	require.NoError(t, json.Unmarshal([]byte(said), &ready))
	require.Equal(t, exitDone, run(t.Context(), []string{"table", "create", "--dynamodb-endpoint", ready.DynamoDB}, newWorld().environment()))

	ns := natstest.StartWith(t, &server.Options{Username: "service", Password: password, JetStream: true})
	address := ns.Addr().String()
	w := newWorld()
	ended, stop := runApart(w, "admission", "--nats", "nats://service:"+password+"@"+address, "--dynamodb-endpoint", ready.DynamoDB,
		"--admin-listen", "127.0.0.1:0", "--log-format", "json", "--log-level", "debug")
	_, ok = w.stderr.wait("admission is ready", ended)
	require.True(t, ok, w.stderr)
	ns.Stop()
	_, ok = w.stderr.wait("lost the connection to NATS", ended)
	require.True(t, ok, w.stderr)
	ns.Restart(t)
	_, ok = w.stderr.wait("connected to NATS again", ended)
	require.True(t, ok, w.stderr)
	stop()

	wrong := newWorld()
	require.Equal(t, exitError, run(t.Context(), []string{
		"admission", "--nats", "nats://service:" + password + "-of-another@" + address, "--dynamodb-endpoint", ready.DynamoDB, "--admin-listen", "127.0.0.1:0",
	}, wrong.environment()), "the password is wrong")
	ns.Stop()
	for _, said := range []string{w.stderr.String(), w.stdout.String(), wrong.stderr.String(), wrong.stdout.String()} {
		require.NotContains(t, said, password)
		require.NotContains(t, said, key)
	}
}
