package tidegate_test

import (
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/stretchr/testify/require"

	"github.com/tidegate/tidegate/internal/embednats/natstest"
	tidegate "github.com/tidegate/tidegate/pkg/client"
)

// BenchmarkAcquire and BenchmarkEcho exchange payloads of the same sizes with
// the same responder; their ratio is what the client costs.
func BenchmarkAcquire(b *testing.B) {
	nc := benchWire(b)
	client, err := tidegate.New(nc)
	require.NoError(b, err)
	b.ReportAllocs()
	b.SetParallelism(64)
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			if _, err := client.Acquire(b.Context(), "api-key-123", "gpt-4", tidegate.Consume{"rpm": 1, "tpm": 500}); err != nil {
				b.Error(err)
			}
		}
	})
}

func BenchmarkEcho(b *testing.B) {
	nc := benchWire(b)
	payload := []byte(`{"entity":"api-key-123","resource":"gpt-4","consume":{"rpm":1,"tpm":500}}`)
	b.ReportAllocs()
	b.SetParallelism(64)
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			if _, err := nc.Request("tidegate.v1.default.acquire", payload, 2*time.Second); err != nil {
				b.Error(err)
			}
		}
	})
}

// benchWire has a responder that admits everything, on a loopback socket.
func benchWire(b *testing.B) *nats.Conn {
	b.Helper()
	s := natstest.Start(b)
	responder := s.Connect(b)
	reply := []byte(`{"allowed":true,"lease":"eyJhIjoxfQ.0123456789abcdef0123456789abcdef0123456789abcdef","limits":[` +
		`{"entity":"api-key-123","name":"rpm","capacity":100,"requested":1,"available":99},` +
		`{"entity":"api-key-123","name":"tpm","capacity":10000,"requested":500,"available":9500}]}`)
	_, err := responder.Subscribe("tidegate.v1.*.acquire", func(m *nats.Msg) {
		if err := m.Respond(reply); err != nil {
			b.Error(err)
		}
	})
	require.NoError(b, err)
	require.NoError(b, responder.Flush())
	return s.Connect(b)
}
