package admission

import (
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
	"github.com/stretchr/testify/require"

	"github.com/tidegate/tidegate/pkg/api"
)

// sendFrom sends a request whose reply goes to a subject of the caller's choice,
// which NATS permissions do not check, and waits until it was dealt with.
func sendFrom(t *testing.T, nc *nats.Conn, verb api.Verb, body, replyTo string) {
	t.Helper()
	require.NoError(t, nc.PublishMsg(&nats.Msg{
		Subject: api.Subject(api.DefaultNamespace, verb), Reply: replyTo, Data: []byte(body),
	}))
	require.NoError(t, nc.Flush())
}

func counted(t *testing.T, c prometheus.Counter) float64 {
	t.Helper()
	var m dto.Metric
	require.NoError(t, c.Write(&m))
	return m.GetCounter().GetValue()
}

// What a node answers is published with the node's own permissions: a caller
// must not be able to speak through it to JetStream or to other nodes.
func TestRepliesAreNotSentWhereOnlyTheServiceMaySpeak(t *testing.T) {
	w := tpmWorld(t)
	n := w.node(t, Tuning{})
	nc := w.nats.Connect(t)
	lease := acquire(t, nc, tokens500).Lease
	require.True(t, ask[api.ReleaseReply](t, nc, api.VerbRelease, releaseBody(lease)).Released)

	heard, err := nc.SubscribeSync(api.ConfigSubjectAll)
	require.NoError(t, err)
	for _, subject := range []string{
		"$JS.API.STREAM.PURGE." + recordsStream,
		recordSubject + "x",
		api.ConfigSubject(api.DefaultNamespace),
		api.Subject(api.DefaultNamespace, api.VerbLimitsDelete),
	} {
		sendFrom(t, nc, api.VerbRelease, releaseBody(lease), subject)
	}
	sendFrom(t, nc, api.VerbAcquire, tokens500, api.ConfigSubject(api.DefaultNamespace))
	forbidden := n.Service.metrics.requests.WithLabelValues(verbUnknown, string(api.CodeForbidden))
	require.Eventually(t, func() bool { return counted(t, forbidden) == 5 }, patience, time.Millisecond)
	require.NoError(t, n.nats.Flush())
	require.NoError(t, nc.Flush())
	pending, _, err := heard.Pending()
	require.NoError(t, err)
	require.Zero(t, pending, "nobody was told of a changed config")
	require.EqualValues(t, 0, w.consumed(t, "tpm"), "a request that cannot be answered is not served")
	js, err := jetstream.New(nc)
	require.NoError(t, err)
	stream, err := js.Stream(t.Context(), recordsStream)
	require.NoError(t, err)
	info, err := stream.Info(t.Context(), jetstream.WithSubjectFilter(recordSubject+w.ns+".>"))
	require.NoError(t, err)
	require.Len(t, info.State.Subjects, 1, "the lease records are as they were")
}
