package main

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tidegate/tidegate/internal/dirtest"
)

// Every service takes the flags of its log, whichever group it is in.
func TestEveryServiceSaysHowItLogs(t *testing.T) {
	services := 0
	for _, n := range grammar(t).Leaves(false) {
		has := map[string]bool{}
		for _, group := range n.AllFlags(false) {
			for _, flag := range group {
				has[flag.Name] = true
			}
		}
		if has["admin-listen"] || n.Name == "dynamodb" {
			services++
			require.True(t, has["log-format"] && has["log-level"], n.FullPath())
		}
	}
	require.GreaterOrEqual(t, services, 5)
}

// What a service logs is read by programs where that is asked for, from the level
// on that is asked for, and is never among its output.
func TestServicesLogAsTheyAreTold(t *testing.T) {
	for name, c := range map[string]struct {
		flags []string
		json  bool
		debug bool
	}{
		"text":           {flags: nil},
		"JSON":           {flags: []string{"--log-format", "json", "--log-level", "debug"}, json: true, debug: true},
		"all JSON":       {flags: []string{"--json", "--log-level", "debug"}, json: true, debug: true},
		"JSON but text":  {flags: []string{"--json", "--log-format", "text", "--log-level", "debug"}, debug: true},
		"warnings alone": {flags: []string{"--log-format", "json", "--log-level", "warn"}, json: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld()
			ended, stop := runApart(w, append([]string{"up", "--dir", dirtest.New(t), "--nats-listen", "127.0.0.1:0", "--admin-listen", "127.0.0.1:0"}, c.flags...)...)
			_, ready := w.stdout.wait("nats://", ended)
			require.True(t, ready, w.stderr)
			require.Equal(t, exitDone, stop())
			logged := w.stderr.String()
			lines, debug := strings.Split(strings.TrimSpace(logged), "\n"), false
			for _, line := range lines {
				if line == "" {
					continue
				}
				var entry struct{ Time, Level, Msg string }
				err := json.Unmarshal([]byte(line), &entry)
				require.Equal(t, c.json, err == nil, line)
				require.Equal(t, c.json, entry.Time != "" && entry.Msg != "", line)
				debug = debug || entry.Level == "DEBUG" || strings.Contains(line, "level=DEBUG")
			}
			require.Equal(t, c.debug, debug, logged)
		})
	}
}
