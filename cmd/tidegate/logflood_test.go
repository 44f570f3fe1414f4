package main

import (
	"fmt"
	"net"
	"strings"
	"testing"

	"github.com/nats-io/nats.go"
	"github.com/stretchr/testify/require"

	"github.com/tidegate/tidegate/pkg/api"
)

// A flood of malformed messages is logged by a few lines, each malformed message by at
// most one, and the lines that were left out are counted.
func TestAFloodOfMalformedMessagesIsCounted(t *testing.T) {
	t.Parallel()
	s := startUp(t, "--log-burst", "3", "--log-interval", "1h")
	const flood = 500
	raw, err := net.Dial("tcp", strings.TrimPrefix(s.nats, "nats://"))
	require.NoError(t, err)
	defer func() { _ = raw.Close() }()
	header := "NATS/1.0\r\nno header\r\n\r\n"
	_, err = fmt.Fprint(raw, "CONNECT {\"verbose\":false,\"headers\":true}\r\n", strings.Repeat(
		fmt.Sprintf("HPUB %s %d %d\r\n%s\r\n", api.Subject(api.DefaultNamespace, api.VerbAcquire), len(header), len(header), header), flood), "PING\r\n")
	require.NoError(t, err)
	waitFor(t, raw, "PONG")

	nc, err := nats.Connect(s.nats) // its request comes after the flood
	require.NoError(t, err)
	defer nc.Close()
	_, err = nc.Request(api.Subject(api.DefaultNamespace, api.VerbStatus), []byte(`{}`), patience)
	require.NoError(t, err)
	require.Equal(t, exitDone, s.stop())

	logged := s.stderr.String()
	require.Equal(t, 3, strings.Count(logged, `msg="NATS reports an error"`), logged)
	require.Contains(t, logged, fmt.Sprintf(`msg="log lines were suppressed" line="NATS reports an error" cause="error=nats: message could not decode headers" suppressed=%d interval=1h0m0s`, flood-3))
}

// waitFor reads until a text has come.
func waitFor(t *testing.T, from net.Conn, text string) {
	t.Helper()
	var got strings.Builder
	for buffer := make([]byte, 4096); !strings.Contains(got.String(), text); {
		n, err := from.Read(buffer)
		require.NoError(t, err)
		got.Write(buffer[:n])
	}
}
