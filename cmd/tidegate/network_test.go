package main

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tidegate/tidegate/internal/dirtest"
)

// Listeners without access control stay on loopback unless the network is trusted.
func TestListenersStayOnLoopback(t *testing.T) {
	for _, listener := range []struct{ line, flag string }{
		{"up --admin-listen 127.0.0.1:0", "--nats-listen"},
		{"up --nats-listen 127.0.0.1:0 --admin-listen 127.0.0.1:0", "--dynamodb-listen"},
		{"up --nats-listen 127.0.0.1:0", "--admin-listen"},
		{"dynamodb", "--listen"},
	} {
		for _, address := range []string{"0.0.0.0:0", ":0", "[::]:0", "10.1.2.3:0", "192.0.2.1:0", "[fe80::1]:0", "[::ffff:10.1.2.3]:0", "example.com:0", "localhost.:0"} {
			dir := dirtest.New(t)
			w := newWorld()
			code := runWithin(t, append(strings.Fields(listener.line), listener.flag, address, "--dir", dir), w)
			require.Equal(t, exitUsage, code, "%s %s", listener.flag, address)
			require.Contains(t, w.stderr.String(), listener.flag+" "+address+" is not on loopback")
			require.Contains(t, w.stderr.String(), "write 127.0.0.1:0, or add --trust-network")
			require.Empty(t, filesIn(t, dir), "nothing was started")
		}
	}
}

// With --trust-network the same listeners answer on all interfaces.
func TestATrustedNetworkIsListenedOn(t *testing.T) {
	t.Parallel()
	s := startUp(t, "--trust-network", "--nats-listen", "0.0.0.0:0", "--dynamodb-listen", "0.0.0.0:0", "--admin-listen", "0.0.0.0:0")
	require.NotContains(t, s.printed, "127.0.0.1:")
	ports := listeners.FindAllStringSubmatch(s.printed, -1)
	require.GreaterOrEqual(t, len(ports), 3, s.printed)
	for _, found := range ports {
		conn, err := net.Dial("tcp", net.JoinHostPort("127.0.0.1", found[1]))
		require.NoError(t, err, s.printed)
		require.NoError(t, conn.Close())
	}
}

// listeners finds the ports of a greeting.
var listeners = regexp.MustCompile(`//(?:0\.0\.0\.0|\[::\]):(\d+)`)

// filesIn lists a folder.
func filesIn(t *testing.T, dir string) []os.DirEntry {
	t.Helper()
	entries, err := os.ReadDir(dir)
	require.NoError(t, err)
	return entries
}

// Every form of a loopback address is allowed.
func TestLoopbackIsAllowed(t *testing.T) {
	for _, host := range []string{"127.0.0.1", "127.1.2.3", "localhost", "[::1]", "[::ffff:127.0.0.1]"} {
		require.NoError(t, networkFlags{}.check("--listen", host+":8000", fullStore), host)
	}
}

// A web page whose name was rebound to this machine reaches neither store, whatever it asks;
// clients reach it by address, as localhost, and by the names that were allowed.
func TestTheStoreChecksTheHost(t *testing.T) {
	t.Parallel()
	s := startUp(t, "--dynamodb-listen", "127.0.0.1:0", "--allow-host", "tidegate.example")
	alone, _ := startStore(t, dirtest.New(t), "--allow-host", "tidegate.example", "--allow-host", "store")
	for _, endpoint := range []string{s.endpoint(t), alone} {
		address := strings.TrimPrefix(endpoint, "http://")
		_, port, err := net.SplitHostPort(address)
		require.NoError(t, err)
		for host, status := range map[string]int{
			address: 200, "localhost:" + port: 200, "localhost.:" + port: 200, "[::1]:" + port: 200,
			"tidegate.example:" + port: 200, "Tidegate.Example.": 200,
			"evil.example:" + port: 421, "evil.example": 421, "tidegate.example.evil.example": 421, "": 421,
		} {
			got, body := askStore(t, address, "/", host, "")
			require.Equal(t, status, got, "%s: %s", host, body)
			if status != 200 {
				require.Contains(t, body, `"__type":"com.amazon.coral.service#AccessDeniedException"`)
				require.Contains(t, body, "--allow-host")
			}
		}
		status, _ := askStore(t, address, "http://evil.example/", address, "")
		require.Equal(t, 421, status, "the host of an absolute request counts")
		status, body := askStore(t, address, "/", address, "Origin: http://evil.example\r\n")
		require.Equal(t, 403, status, body)
	}
	status, _ := askStore(t, strings.TrimPrefix(alone, "http://"), "/", "store:8000", "")
	require.Equal(t, 200, status)
}

// askStore lists the store's tables by a request as it is.
func askStore(t *testing.T, address, target, host, headers string) (status int, body string) {
	t.Helper()
	conn, err := net.Dial("tcp", address)
	require.NoError(t, err)
	defer func() { _ = conn.Close() }()
	_, err = fmt.Fprintf(conn, "POST %s HTTP/1.1\r\nHost: %s\r\n%sX-Amz-Target: DynamoDB_20120810.ListTables\r\nContent-Length: 2\r\nConnection: close\r\n\r\n{}", target, host, headers)
	require.NoError(t, err)
	reply, err := http.ReadResponse(bufio.NewReader(conn), nil)
	require.NoError(t, err)
	defer func() { _ = reply.Body.Close() }()
	text, err := io.ReadAll(reply.Body)
	require.NoError(t, err)
	return reply.StatusCode, string(text)
}
