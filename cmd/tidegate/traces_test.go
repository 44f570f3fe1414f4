package main

import (
	"bytes"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tidegate/tidegate/internal/dirtest"
)

// collector takes what is exported, as text with names in it.
func collector(t *testing.T) (url string, exported func() string) {
	t.Helper()
	var mu sync.Mutex
	var all bytes.Buffer
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		_, _ = io.WriteString(&all, r.Method+" "+r.URL.Path+"\n")
		_, _ = io.Copy(&all, r.Body)
		w.WriteHeader(http.StatusOK)
	}))
	t.Cleanup(s.Close)
	return s.URL, func() string {
		mu.Lock()
		defer mu.Unlock()
		return all.String()
	}
}

// A service sends its traces where OpenTelemetry's environment says, the last of
// them before it ends, and none without.
func TestTracesAreExportedWhereTheEnvironmentSays(t *testing.T) {
	for name, c := range map[string]struct {
		env      map[string]string
		exported bool
	}{
		"nowhere":  {nil, false},
		"disabled": {map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": "URL", "OTEL_SDK_DISABLED": "true"}, false},
		"none":     {map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": "URL", "OTEL_TRACES_EXPORTER": "none"}, false},
		"endpoint": {map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": "URL"}, true},
		"traces":   {map[string]string{"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": "URL/v1/traces", "OTEL_SERVICE_NAME": "ours"}, true},
	} {
		t.Run(name, func(t *testing.T) {
			url, exported := collector(t)
			w := newWorld()
			for key, value := range c.env {
				value = strings.ReplaceAll(value, "URL", url)
				w.env[key] = value
				t.Setenv(key, value) // OpenTelemetry reads some by itself
			}
			ended, stop := runApart(w, "up", "--dir", dirtest.New(t), "--nats-listen", "127.0.0.1:0", "--admin-listen", "127.0.0.1:0")
			printed, ready := w.stdout.wait(greetingEnds, ended)
			require.True(t, ready, w.stderr)
			nats := natsOf(printed)
			for _, line := range []string{"limits set --system rpm=10/min", "acquire key-1 gpt-4 rpm=1"} {
				require.Equal(t, exitDone, run(t.Context(), append(strings.Fields(line), "--nats", nats), newWorld().environment()))
			}
			require.Equal(t, exitDone, stop())
			if !c.exported {
				require.Empty(t, exported())
				return
			}
			got := exported()
			require.Contains(t, got, "POST /v1/traces\n")
			for _, part := range []string{"admission acquire", "bucket commit", "DynamoDB.PutItem"} {
				require.Contains(t, got, part)
			}
			service := "tidegate"
			if set := c.env["OTEL_SERVICE_NAME"]; set != "" {
				service = set
			}
			require.Contains(t, got, service)
		})
	}
}

func TestOtherProtocolsOfTracesAreRefused(t *testing.T) {
	w := newWorld()
	w.env["OTEL_EXPORTER_OTLP_ENDPOINT"], w.env["OTEL_EXPORTER_OTLP_PROTOCOL"] = "http://127.0.0.1:4317", "grpc"
	require.Equal(t, exitUsage, runWithin(t, []string{"up", "--dir", t.TempDir()}, w))
	require.Contains(t, w.stderr.String(), "http/protobuf")
}
