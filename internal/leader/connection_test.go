package leader_test

import (
	"testing"

	"github.com/nats-io/nats.go"
	"github.com/stretchr/testify/require"

	"github.com/tidegate/tidegate/internal/embednats/natstest"
	"github.com/tidegate/tidegate/internal/leader"
)

// A message that waits through a restart reaches the server after it: of a lane's
// acknowledgement, that would skip the records that have its number by then.
func TestAConnectionThatBuffersIsRefused(t *testing.T) {
	for name, c := range map[string]struct {
		options []nats.Option
		waits   bool
	}{
		"by default": {[]nats.Option{nats.ReconnectBufSize(nats.DefaultReconnectBufSize)}, true},
		"refused":    {nil, false},
	} {
		t.Run(name, func(t *testing.T) {
			s := natstest.Start(t)
			nc := s.Connect(t, c.options...)
			heard, err := nc.SubscribeSync("ack")
			require.NoError(t, err)
			s.Stop()
			require.Eventually(t, func() bool { return !nc.IsConnected() }, patience, 1e6)
			errPublish := nc.Publish("ack", nil)
			s.Restart(t)
			if c.waits {
				require.NoError(t, errPublish)
				_, err = heard.NextMsg(patience)
				require.NoError(t, err)
				require.ErrorContains(t, leader.CheckConnection(nc), "nats.ReconnectBufSize(-1)")
				return
			}
			require.ErrorIs(t, errPublish, nats.ErrReconnectBufExceeded)
			require.NoError(t, leader.CheckConnection(nc))
		})
	}
}
