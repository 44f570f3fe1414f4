package worker_test

import (
	"log/slog"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"

	"github.com/tidegate/tidegate/internal/embednats/natstest"
	"github.com/tidegate/tidegate/internal/worker"
)

// A worker refuses a connection that keeps acknowledgements and batches through an
// interruption, and names each missing setting.
func TestWhatAWorkerNeeds(t *testing.T) {
	s := natstest.Start(t)
	cfg := worker.Config{
		Service: "aggregator", NATS: s.Connect(t), Member: "a", Now: time.Now, Log: slog.New(slog.DiscardHandler),
		Metrics: prometheus.NewRegistry(), Required: map[string]bool{"Table": true},
	}
	_, err := worker.New(cfg)
	require.NoError(t, err)
	buffers := cfg
	buffers.NATS = s.Connect(t, nats.ReconnectBufSize(nats.DefaultReconnectBufSize))
	_, err = worker.New(buffers)
	require.ErrorContains(t, err, "aggregator: ")
	require.ErrorContains(t, err, "nats.ReconnectBufSize(-1)")
	cfg.Member, cfg.Required = "", map[string]bool{"Table": false}
	_, err = worker.New(cfg)
	require.EqualError(t, err, "aggregator: Member, Table are required")
}
