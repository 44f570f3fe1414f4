package natstest

import (
	"net"
	"strconv"
	"strings"
	"testing"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/stretchr/testify/require"
)

// StartCluster runs a cluster of three servers with JetStream until the test ends.
// Streams can be created a moment after it returns.
func StartCluster(tb testing.TB) []*Server {
	tb.Helper()
	var routes []string
	var held []net.Listener // of the ports, which stay reserved until their server starts
	for range 3 {
		var free net.ListenConfig
		l, err := free.Listen(tb.Context(), "tcp", "127.0.0.1:0")
		require.NoError(tb, err)
		held = append(held, l)
		routes = append(routes, "nats://"+l.Addr().String())
	}
	var servers []*Server
	for i, l := range held {
		port := l.Addr().(*net.TCPAddr).Port
		require.NoError(tb, l.Close())
		servers = append(servers, StartWith(tb, &server.Options{
			ServerName: "server-" + strconv.Itoa(i), JetStream: true,
			Cluster: server.ClusterOpts{Name: "cluster", Host: "127.0.0.1", Port: port}, Routes: server.RoutesFromStr(strings.Join(routes, ",")),
		}))
	}
	return servers
}
