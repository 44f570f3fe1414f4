package natstest_test

import (
	"testing"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/require"

	"github.com/tidegate/tidegate/internal/embednats/natstest"
)

// After an outage the server is where it was, with what it had, and connections
// find back.
func TestAnOutageEnds(t *testing.T) {
	s := natstest.Start(t)
	url, back := s.ClientURL(), make(chan struct{}, 1)
	nc := s.Connect(t, nats.ReconnectHandler(func(*nats.Conn) { back <- struct{}{} }))
	js, err := jetstream.New(nc)
	require.NoError(t, err)
	_, err = js.CreateStream(t.Context(), jetstream.StreamConfig{Name: "KEPT", Subjects: []string{"kept.>"}})
	require.NoError(t, err)

	s.Stop()
	s.Stop() // more than one does no harm
	require.False(t, s.Running())
	s.Restart(t)
	require.Equal(t, url, s.ClientURL())
	<-back
	_, err = js.Publish(t.Context(), "kept.one", []byte("still here"))
	require.NoError(t, err)

	nc.Close()
	s.Restart(t)
	js, err = jetstream.New(s.Connect(t))
	require.NoError(t, err)
	stream, err := js.Stream(t.Context(), "KEPT")
	require.NoError(t, err)
	msg, err := stream.GetLastMsgForSubject(t.Context(), "kept.one")
	require.NoError(t, err)
	require.Equal(t, "still here", string(msg.Data))
}
