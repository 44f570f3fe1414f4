package readme_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tidegate/tidegate/pkg/events"
)

// Every event that a document shows is one, just as a relay would publish it.
func TestEvents(t *testing.T) {
	shown := 0
	for _, d := range documents(t) {
		for _, f := range d.fences(t) {
			if f.language != "event" {
				continue
			}
			shown++
			e, err := events.Decode([]byte(f.text))
			require.NoError(t, err, "%s:%d", d.name, f.line)
			again, err := events.Encode(e)
			require.NoError(t, err)
			require.JSONEq(t, f.text, string(again), "%s:%d", d.name, f.line)
		}
	}
	require.Positive(t, shown)
}
