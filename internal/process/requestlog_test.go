package process_test

import (
	"bytes"
	"encoding/json"
	"log/slog"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/trace"

	"github.com/tidegate/tidegate/internal/process"
)

func TestLinesCarryTheirRequests(t *testing.T) {
	var written bytes.Buffer
	log := process.LogRequestIDs(slog.New(slog.NewJSONHandler(&written, nil)))
	line := func() map[string]any {
		entry := map[string]any{}
		require.NoError(t, json.Unmarshal(written.Bytes(), &entry), written.String())
		written.Reset()
		return entry
	}

	log.InfoContext(t.Context(), "nobody's")
	require.NotContains(t, line(), "request_id")

	one := process.WithRequestIDs(t.Context(), "a")
	log.With("bucket", "b").InfoContext(one, "one's")
	entry := line()
	require.Equal(t, "a", entry["request_id"])
	require.Equal(t, "b", entry["bucket"])

	log.InfoContext(process.WithRequestIDs(one, "b", "c"), "the inner context counts")
	entry = line()
	require.NotContains(t, entry, "request_id")
	require.Equal(t, []any{"b", "c"}, entry["request_ids"])

	var many []string
	for i := range 1000 {
		many = append(many, strconv.Itoa(i))
	}
	log.InfoContext(process.WithRequestIDs(t.Context(), many...), "many's")
	entry = line()
	require.Len(t, entry["request_ids"], 32)
	require.InDelta(t, 1000, entry["requests"], 0)

	sampled := trace.NewSpanContext(trace.SpanContextConfig{TraceID: trace.TraceID{1}, SpanID: trace.SpanID{2}, TraceFlags: trace.FlagsSampled})
	log.InfoContext(trace.ContextWithSpanContext(one, sampled), "traced")
	require.Equal(t, sampled.TraceID().String(), line()["trace_id"])
	log.InfoContext(trace.ContextWithSpanContext(one, sampled.WithTraceFlags(0)), "not kept")
	require.NotContains(t, line(), "trace_id")

	log.WithGroup("store").InfoContext(one, "grouped", "n", 1)
	require.Equal(t, map[string]any{"n": 1.0, "request_id": "a"}, line()["store"])
}
