package main

import (
	"net/http"
	"net/http/httptest"
	"regexp"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestHealthSaysWhatTheServiceSays(t *testing.T) {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/good" {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
		_, _ = w.Write([]byte("nats: away\n"))
	}))
	url := s.URL
	for path, code := range map[string]int{"/good": exitDone, "/bad": exitError} {
		w := newWorld()
		require.Equal(t, code, runWithin(t, []string{"health", url + path}, w))
		require.Contains(t, w.stdout.String()+w.stderr.String(), "nats: away")
	}
	s.Close()
	w := newWorld()
	require.Equal(t, exitError, runWithin(t, []string{"health", url}, w))
	require.Contains(t, w.stderr.String(), "no answer from "+url)
	require.Equal(t, exitUsage, runWithin(t, []string{"health", "9464"}, newWorld()))
}

// The store says without credentials that it is there, and listens beyond
// loopback only when told to.
func TestTheStoreAmongContainers(t *testing.T) {
	t.Parallel()
	require.Equal(t, exitUsage, runWithin(t, []string{"dynamodb", "--listen", "0.0.0.0:0"}, newWorld()))
	w := newWorld()
	ended, stop := runApart(w, "dynamodb", "--listen", "0.0.0.0:0", "--trust-network")
	t.Cleanup(func() { stop() })
	printed, ready := w.stdout.wait(greetingEnds, ended)
	require.True(t, ready, w.stderr)
	port := regexp.MustCompile(`http://\S+:(\d+)`).FindStringSubmatch(printed)
	require.NotNil(t, port, printed)
	require.Equal(t, exitDone, runWithin(t, []string{"health", "http://127.0.0.1:" + port[1] + "/healthz"}, newWorld()))
	require.Equal(t, exitDone, stop())
}

// What gives access to a NATS server is not shown.
func TestSecretsAreNotShown(t *testing.T) {
	for urls, want := range map[string]string{
		"nats://127.0.0.1:4222":              "nats://127.0.0.1:4222",
		"nats://me:secret@a:1,nats://b:2":    "nats://me:xxxxx@a:1,nats://b:2",
		"nats://secret@a:1":                  "nats://xxxxx@a:1",
		"me:secret@a:1":                      "xxxxx@a:1",
		"nats://b:2, nats://me:secret@a:1":   "nats://b:2,nats://me:xxxxx@a:1",
		"nats://me:sec%ret@a:1":              "xxxxx@a:1",
		"a.example.com:4222,b.example.com:1": "a.example.com:4222,b.example.com:1",
	} {
		require.Equal(t, want, natsFlags{NATS: urls}.where())
	}
	w := newWorld()
	w.env["TIDEGATE_NATS"] = "nats://me:secret@127.0.0.1:1"
	require.Equal(t, exitError, runWithin(t, []string{"status", "key"}, w))
	require.Contains(t, w.stderr.String(), "nats://me:xxxxx@127.0.0.1:1")
	require.NotContains(t, w.stderr.String(), "secret")
}
