package main

import (
	"encoding/json"
	"net"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/stretchr/testify/require"
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
	require.Equal(t, exitDone, run(t.Context(), []string{"table", "create", "--dynamodb-endpoint", ready.DynamoDB}, newWorld().process()))

	start := func(port int) *server.Server {
		ns, err := server.NewServer(&server.Options{
			Host: "127.0.0.1", Port: port, Username: "service", Password: password, JetStream: true, StoreDir: t.TempDir(), NoLog: true, NoSigs: true,
		})
		require.NoError(t, err)
		ns.Start()
		require.True(t, ns.ReadyForConnections(10*time.Second))
		return ns
	}
	ns := start(server.RANDOM_PORT)
	address, port := ns.Addr().String(), ns.Addr().(*net.TCPAddr).Port
	w := newWorld()
	ended, stop := runApart(w, "admission", "--nats", "nats://service:"+password+"@"+address, "--dynamodb-endpoint", ready.DynamoDB,
		"--admin-listen", "127.0.0.1:0", "--log-format", "json", "--log-level", "debug")
	_, ok = w.stderr.wait("admission is ready", ended)
	require.True(t, ok, w.stderr)
	ns.Shutdown()
	ns.WaitForShutdown()
	_, ok = w.stderr.wait("lost the connection to NATS", ended)
	require.True(t, ok, w.stderr)
	ns = start(port)
	_, ok = w.stderr.wait("connected to NATS again", ended)
	require.True(t, ok, w.stderr)
	stop()
	ns.Shutdown()
	ns.WaitForShutdown()

	wrong := newWorld()
	require.Equal(t, exitError, run(t.Context(), []string{
		"admission", "--nats", "nats://service:" + password + "@" + address, "--dynamodb-endpoint", ready.DynamoDB, "--admin-listen", "127.0.0.1:0",
	}, wrong.process()), "nobody answers")
	for _, said := range []string{w.stderr.String(), w.stdout.String(), wrong.stderr.String(), wrong.stdout.String()} {
		require.NotContains(t, said, password)
		require.NotContains(t, said, key)
	}
}
