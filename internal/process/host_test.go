package process_test

import (
	"bufio"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"

	"github.com/tidegate/tidegate/internal/process"
)

// rawStatus sends a request as it is and returns the status of the answer.
func rawStatus(t *testing.T, address, request string) int {
	t.Helper()
	var dialer net.Dialer
	conn, err := dialer.DialContext(t.Context(), "tcp", address)
	require.NoError(t, err)
	defer func() { _ = conn.Close() }()
	_, err = io.WriteString(conn, request)
	require.NoError(t, err)
	reply, err := http.ReadResponse(bufio.NewReader(conn), nil)
	require.NoError(t, err, request)
	defer func() { _ = reply.Body.Close() }()
	return reply.StatusCode
}

func TestHosts(t *testing.T) {
	guard := process.GuardHost(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusOK) }),
		[]string{"Store", "tidegate.example."}, func(w http.ResponseWriter, status int, message string) { http.Error(w, message, status) })
	server := httptest.NewServer(guard)
	defer server.Close()
	address := server.Listener.Addr().String()
	for host, status := range map[string]int{
		"127.0.0.1":                 200,
		"127.0.0.1:8000":            200,
		"10.0.0.7:8000":             200, // no name, which could be rebound
		"[::1]":                     200,
		"[::1]:8000":                200,
		"[fe80::1%25lo]:8000":       200,
		"localhost":                 200,
		"localhost:8000":            200,
		"LocalHost.:8000":           200,
		"store:8000":                200,
		"STORE.":                    200,
		"tidegate.example:8000":     200,
		"evil.example":              421,
		"evil.example:8000":         421,
		"localhost.evil.example":    421,
		"evil.localhost.":           421,
		"localhost..":               421,
		"127.0.0.1.evil.example":    421,
		"evil.example@127.0.0.1":    400,
		"2130706433":                421,
		"0x7f.1":                    421,
		"::1":                       421, // without brackets the end is a port
		"[::1].evil.example":        421,
		"[evil.example]:8000":       421,
		"evilstore":                 421,
		":8000":                     421,
		strings.Repeat("a.", 1<<10): 421,
	} {
		require.Equal(t, status, rawStatus(t, address, "GET / HTTP/1.1\r\nHost: "+host+"\r\nConnection: close\r\n\r\n"), host)
	}
	for request, status := range map[string]int{
		"GET http://127.0.0.1/ HTTP/1.1\r\nHost: evil.example":                            200, // the URL counts, as RFC 9112 says
		"GET http://evil.example/ HTTP/1.1\r\nHost: 127.0.0.1":                            421,
		"POST http://evil.example:8000/ HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0": 421,
		"GET / HTTP/1.0":                       421, // without a host
		"GET / HTTP/1.1":                       400,
		"GET / HTTP/1.1\r\nHost: a\r\nHost: b": 400,
		"POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0":                                              200,
		"POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0\r\nOrigin: http://localhost":                  200,
		"POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0\r\nOrigin: http://evil.example":               403,
		"POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0\r\nOrigin: null":                              403,
		"POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0\r\nSec-Fetch-Site: cross-site":                403,
		"POST / HTTP/1.1\r\nHost: evil.example\r\nContent-Length: 0\r\nSec-Fetch-Site: same-origin":            421,
		"POST / HTTP/1.1\r\nHost: evil.example\r\nContent-Length: 0\r\nOrigin: http://evil.example":            421,
		"OPTIONS / HTTP/1.1\r\nHost: evil.example\r\nAccess-Control-Request-Method: POST\r\nContent-Length: 0": 421,
	} {
		require.Equal(t, status, rawStatus(t, address, request+"\r\nConnection: close\r\n\r\n"), request)
	}
}

// Profiles show memory, so that no web page may read them: a listener on loopback checks the
// host. Other listeners have no profiles, and are asked by names that only the network knows.
func TestAdminChecksTheHostOnLoopback(t *testing.T) {
	for listen, named := range map[string]int{"127.0.0.1:0": 421, "0.0.0.0:0": 200} {
		admin, err := process.ListenAdmin(t.Context(), process.AdminOptions{Listen: listen, Registry: prometheus.NewRegistry(), Log: slog.New(slog.DiscardHandler)})
		require.NoError(t, err)
		serve(t, admin)
		_, port, err := net.SplitHostPort(admin.Address())
		require.NoError(t, err)
		for host, status := range map[string]int{"127.0.0.1:" + port: 200, "localhost:" + port: 200, "admission-1:9464": named} {
			require.Equal(t, status, rawStatus(t, "127.0.0.1:"+port, fmt.Sprintf("GET /metrics HTTP/1.1\r\nHost: %s\r\nConnection: close\r\n\r\n", host)), "%s %s", listen, host)
		}
	}
}
