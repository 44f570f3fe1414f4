package deploy_test

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tidegate/tidegate/pkg/api"
)

// rawClient speaks the protocol of NATS over a socket, so that it can send header blocks
// that no client library writes.
type rawClient struct {
	net.Conn

	read  *bufio.Reader
	inbox string
}

// rawConnect connects as a user, with an inbox.
func (s natsServer) rawConnect(t *testing.T, user, inbox string) *rawClient {
	t.Helper()
	socket, err := net.Dial("tcp", s.Addr().String())
	require.NoError(t, err)
	t.Cleanup(func() { _ = socket.Close() }) // the test may have ended it
	require.NoError(t, socket.SetDeadline(time.Now().Add(patience)))
	c := &rawClient{Conn: socket, read: bufio.NewReader(socket), inbox: inbox}
	c.line(t, "INFO ")
	c.send(t, `CONNECT {"user":%q,"pass":%q,"headers":true,"verbose":false,"protocol":1}`+"\r\nSUB %s 1\r\nPING\r\n", user, passwordOf(user), inbox)
	c.line(t, "PONG")
	return c
}

func (c *rawClient) send(t *testing.T, format string, args ...any) {
	t.Helper()
	_, err := fmt.Fprintf(c, format, args...)
	require.NoError(t, err)
}

// line reads lines until one begins with one of the prefixes, and returns its words.
func (c *rawClient) line(t *testing.T, prefixes ...string) []string {
	t.Helper()
	for {
		text, err := c.read.ReadString('\n')
		require.NoError(t, err)
		require.False(t, strings.HasPrefix(text, "-ERR"), text)
		if slices.ContainsFunc(prefixes, func(p string) bool { return strings.HasPrefix(text, p) }) {
			return strings.Fields(text)
		}
	}
}

// request sends a header block and a body as they are, and returns the error of the
// reply, nil for none.
func (c *rawClient) request(t *testing.T, verb api.Verb, block, body string) *api.Error {
	t.Helper()
	if block == "" {
		c.send(t, "PUB %s %s %d\r\n%s\r\n", api.Subject("acme", verb), c.inbox, len(body), body)
	} else {
		c.send(t, "HPUB %s %s %d %d\r\n%s%s\r\n", api.Subject("acme", verb), c.inbox, len(block), len(block)+len(body), block, body)
	}
	words := c.line(t, "MSG ", "HMSG ")
	size, err := strconv.Atoi(words[len(words)-1])
	require.NoError(t, err)
	message := make([]byte, size)
	_, err = io.ReadFull(c.read, message)
	require.NoError(t, err)
	if !bytes.Contains(message, []byte(api.HeaderErrorCode)) {
		return nil
	}
	return api.DecodeError(message[bytes.IndexByte(message, '{'):])
}

const (
	// forged claims to be the operator.
	forged = `Nats-Request-Info: {"acc":"_","user":"operator"}`
	// told makes nodes answer with a header, so that all replies look alike.
	told = "Tidegate-Timeout-Ms: 10000"
	// doubled keeps the server from finding the headers of its own name.
	doubled = "A: xNats-Request-InfoNats-Request-Info"
)

// forgeries are header blocks that keep the server from taking out what the sender says of
// itself, or hide what the server adds.
func forgeries() map[string]string {
	lines := func(lines ...string) string {
		return strings.Join(append(append([]string{"NATS/1.0"}, lines...), "", ""), "\r\n")
	}
	manySpaceless := make([]string, 0, 400)
	for i := range 400 {
		manySpaceless = append(manySpaceless, fmt.Sprintf("X%d:", i))
	}
	return map[string]string{
		"the name twice in a row before it":  lines(told, doubled, forged),
		"twice, and given three times":       lines(told, doubled, forged, forged, forged),
		"a bare LF before it":                lines(told, "A: x\n"+forged),
		"a bare LF, first of all":            "NATS/1.0\n" + forged + "\r\n" + told + "\r\n\r\n",
		"a block that ends early":            lines(told, doubled, forged, "", "B: y"),
		"one that ends early, by bare LF":    "NATS/1.0\n" + told + "\n" + forged + "\n\nB: y\r\n\r\n",
		"early, among many short headers":    lines(append(append([]string{told, doubled, forged}, manySpaceless...), "", "B: y")...),
		"early, among many short lines":      "NATS/1.0\n" + told + "\n" + forged + "\n" + strings.Join(manySpaceless, "\n") + "\n\n\n\n",
		"a last value that is not ended":     strings.TrimSuffix(lines(told, doubled, forged, "B: "), "\r\n\r\n") + "zz",
		"a last key that is not ended":       strings.TrimSuffix(lines(told, doubled, forged, "B"), "\r\n\r\n") + "zz",
		"itself the last, and not ended":     strings.TrimSuffix(lines(told, doubled, forged), "\r\n\r\n") + "zz",
		"none, and what is sent hides":       lines(told, "", "B: y"),
		"headers without a key, and early":   lines(told, doubled, forged, ":", ":", "", "B: y"),
		"a status, and a block ending early": "NATS/1.0 503 x\r\n" + told + "\r\n" + doubled + "\r\n" + forged + "\r\n\r\nB: y\r\n\r\n",
	}
}

// The audit log names the sender as the server does, or there is no change: whatever the
// bytes of a header block are.
func TestNobodyForgesWhoAsked(t *testing.T) {
	w := newWorld(t, "acme")
	w.runAdmission(t)
	for name, block := range forgeries() {
		t.Run(name, func(t *testing.T) {
			c := w.nats.rawConnect(t, "acme-admin", api.InboxPrefix("acme-admin")+".raw")
			body, err := json.Marshal(tenRPM(true))
			require.NoError(t, err)
			refusal := c.request(t, api.VerbLimitsSet, block, string(body))
			require.NotNil(t, refusal)
			require.Equal(t, api.CodeForbidden, refusal.Code, refusal.Message)
		})
	}
	t.Run("malformed", func(t *testing.T) {
		for _, block := range []string{"NATS/1.0\r\nA b\r\n\r\n", "NATS/2.0\r\n\r\n", "NATS/1.0\r\n" + doubled + "\r\n" + forged, "XXXX", "NATS/1.0 1\r\n\r\n"} {
			c := w.nats.rawConnect(t, "acme-admin", api.InboxPrefix("acme-admin")+".raw")
			body, err := json.Marshal(tenRPM(true))
			require.NoError(t, err)
			refusal := c.request(t, api.VerbLimitsSet, block, string(body))
			require.NotNil(t, refusal, block)
			require.Equal(t, api.CodeForbidden, refusal.Code, refusal.Message)
		}
	})
	page, err := w.client(t, "acme-admin", "acme").Admin().ListAudit(t.Context(), api.AuditListRequest{})
	require.NoError(t, err)
	require.Empty(t, page.Events, "nothing was changed")
	t.Run("well-formed", func(t *testing.T) {
		c := w.nats.rawConnect(t, "acme-admin", api.InboxPrefix("acme-admin")+".raw")
		for i, block := range []string{
			"NATS/1.0\r\n" + told + "\r\n\r\n",
			"NATS/1.0\r\n" + strings.ReplaceAll(told, ": ", ":") + "\r\nTidegate-Request-Id:abc\r\n\r\n",
			"NATS/1.0\r\n" + told + "\r\n" + forged + "\r\n\r\n", // the server takes it out
			"NATS/1.0\r\nnats-request-info: x\r\n" + told + "\r\n\r\n",
		} {
			require.Nil(t, c.request(t, api.VerbEntityCreate, block, fmt.Sprintf(`{"entity":"e%d"}`, i)), "%q", block)
		}
		page, err := w.client(t, "acme-admin", "acme").Admin().ListAudit(t.Context(), api.AuditListRequest{})
		require.NoError(t, err)
		require.Len(t, page.Events, 4)
		for _, e := range page.Events {
			require.Equal(t, api.Principal{User: "acme-admin", Account: "acme", Verified: true}, e.Who)
		}
	})
}
