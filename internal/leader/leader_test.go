package leader_test

import (
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/require"

	"github.com/tidegate/tidegate/internal/embednats/natstest"
	"github.com/tidegate/tidegate/internal/leader"
)

func stream(t *testing.T, nc *nats.Conn, cfg jetstream.StreamConfig) {
	t.Helper()
	js, err := jetstream.New(nc)
	require.NoError(t, err)
	cfg.Name, cfg.Subjects, cfg.AllowAtomicPublish, cfg.AllowDirect, cfg.Discard = "KEPT", []string{"kept.>"}, true, true, jetstream.DiscardNew
	_, err = js.CreateOrUpdateStream(t.Context(), cfg)
	require.NoError(t, err)
}

func message(subject, data string) *nats.Msg {
	m := nats.NewMsg(subject)
	m.Data = []byte(data)
	return m
}

func TestABatchIsStoredAndRead(t *testing.T) {
	nc := natstest.Start(t).Connect(t)
	stream(t, nc, jetstream.StreamConfig{MaxBytes: 10_000})
	first := message("kept.a", "1")
	first.Header.Set("Kind", "test")
	batch, err := leader.Publish(t.Context(), nc, []*nats.Msg{first, message("kept.b", "2"), message("kept.a", "3")})
	require.NoError(t, err)
	require.EqualValues(t, 3, batch.Last)

	m, err := leader.Last(t.Context(), nc, "KEPT", "kept.a")
	require.NoError(t, err)
	require.Equal(t, "3", string(m.Data))
	require.EqualValues(t, 3, m.Sequence)
	require.Equal(t, batch.ID, m.Batch())
	m, err = leader.At(t.Context(), nc, "KEPT", 1)
	require.NoError(t, err)
	require.Equal(t, "kept.a", m.Subject)
	require.Equal(t, "test", m.Header.Get("Kind"))
	require.WithinDuration(t, time.Now(), m.Time, time.Hour)
	_, err = leader.At(t.Context(), nc, "KEPT", 4)
	require.ErrorIs(t, err, leader.ErrNone)
	_, err = leader.Last(t.Context(), nc, "KEPT", "kept.c")
	require.ErrorIs(t, err, leader.ErrNone)

	subjects, err := leader.Subjects(t.Context(), nc, "KEPT", "kept.>")
	require.NoError(t, err)
	require.Equal(t, []string{"kept.a", "kept.b"}, subjects)

	fenced := message("kept.b", "4")
	fenced.Header.Set(jetstream.ExpectedLastSubjSeqHeader, "1")
	_, err = leader.Publish(t.Context(), nc, []*nats.Msg{message("kept.a", "5"), fenced})
	require.ErrorIs(t, err, leader.ErrFenced)
	_, err = leader.Publish(t.Context(), nc, []*nats.Msg{message("kept.a", string(make([]byte, 10_000)))})
	require.ErrorIs(t, err, leader.ErrFull)
	info, err := leader.Info(t.Context(), nc, "KEPT")
	require.NoError(t, err)
	require.EqualValues(t, 3, info.State.LastSeq, "of a refused batch nothing is stored")

	fenced.Header.Set(jetstream.ExpectedLastSubjSeqHeader, "2")
	_, err = leader.Publish(t.Context(), nc, []*nats.Msg{message("kept.a", "5"), fenced})
	require.NoError(t, err, "a message of an earlier attempt is good for another")
}

// Every client sees the same term, and a server that starts begins another.
func TestATermIsThatOfAProcess(t *testing.T) {
	s := natstest.Start(t)
	back := make(chan struct{}, 1)
	a, b := s.Connect(t, nats.ReconnectHandler(func(*nats.Conn) { back <- struct{}{} })), s.Connect(t)
	stream(t, a, jetstream.StreamConfig{})
	first, err := leader.TermOf(t.Context(), a, "KEPT")
	require.NoError(t, err)
	same, err := leader.TermOf(t.Context(), b, "KEPT")
	require.NoError(t, err)
	require.Equal(t, first, same)
	s.Restart(t)
	<-back
	second, err := leader.TermOf(t.Context(), a, "KEPT")
	require.NoError(t, err)
	require.NotEqual(t, first, second)
}

// A server without JetStream has no streams, and says so.
func TestErrorsAreTold(t *testing.T) {
	s := natstest.Start(t)
	nc := s.Connect(t)
	_, err := leader.TermOf(t.Context(), nc, "NONE")
	require.ErrorContains(t, err, "NONE")
	_, err = leader.Last(t.Context(), nc, "NONE", "x")
	require.ErrorContains(t, err, "NONE")
	_, err = leader.Subjects(t.Context(), nc, "NONE", "x")
	require.ErrorContains(t, err, "NONE")
	bare := natstest.StartWith(t, &server.Options{}).Connect(t)
	_, err = leader.Info(t.Context(), bare, "NONE")
	require.ErrorIs(t, err, nats.ErrNoResponders)
}
