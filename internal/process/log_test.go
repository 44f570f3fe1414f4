package process_test

import (
	"bytes"
	"encoding/json"
	"log/slog"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tidegate/tidegate/internal/process"
)

func TestLoggers(t *testing.T) {
	for _, c := range []struct{ level, format, says string }{
		{"info", process.FormatText, ""},
		{"WARN", process.FormatJSON, ""},
		{"loud", process.FormatText, "debug, info, warn or error"},
		{"", process.FormatText, "debug, info, warn or error"},
		{"info", "xml", "use text or json"},
	} {
		t.Run(c.level+" "+c.format, func(t *testing.T) {
			_, err := process.NewLogger(new(bytes.Buffer), c.level, c.format)
			if c.says == "" {
				require.NoError(t, err)
				return
			}
			require.ErrorContains(t, err, c.says)
		})
	}
}

func TestLoggersWriteFromTheirLevelUp(t *testing.T) {
	var text, encoded bytes.Buffer
	people, err := process.NewLogger(&text, "info", process.FormatText)
	require.NoError(t, err)
	programs, err := process.NewLogger(&encoded, "error", process.FormatJSON)
	require.NoError(t, err)
	for _, log := range []*slog.Logger{people, programs} {
		log.Debug("no")
		log.Info("between", "n", 1)
		log.Error("yes", "n", 2)
	}
	require.NotContains(t, text.String(), "msg=no")
	require.Contains(t, text.String(), "level=INFO msg=between n=1\n")
	var line struct {
		Msg string
		N   int
	}
	require.NoError(t, json.Unmarshal(encoded.Bytes(), &line), "one line: %s", encoded.String())
	require.Equal(t, "yes", line.Msg)
	require.Equal(t, 2, line.N)
}
