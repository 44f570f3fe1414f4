package embednats

import (
	"log/slog"
	"testing"

	"github.com/stretchr/testify/require"
)

// What NATS acknowledges is on the disk by then: promises rest on it.
func TestMessagesAreForcedToTheDisk(t *testing.T) {
	s, err := Start(t.Context(), Options{Dir: t.TempDir(), Listen: "127.0.0.1:0", Log: slog.New(slog.DiscardHandler)})
	require.NoError(t, err)
	defer s.Shutdown()
	require.True(t, s.server.JetStreamConfig().SyncAlways)
}
