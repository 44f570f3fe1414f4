package admission

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/nats-io/nats.go"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/tidegate/tidegate/internal/embednats/natstest"
	"github.com/tidegate/tidegate/pkg/api"
)

// serversLine is the line that the server appends.
const serversLine = api.HeaderRequestInfo + `: {"acc":"a"}` + "\r\n\r\n"

// Whatever bytes a sender's header block has, the line that the server appends to it names
// the sender, or the request names none. Here the server removes nothing of the block: that
// is what a forger is after.
func TestNoHeaderBlockNamesAnotherSender(t *testing.T) {
	pieces := []string{
		"NATS/1.0", "NATS/1.0 503", "\r\n", "\n", "\r", "A:", "B: ", ":", " ", "x", "zz", "Status:", "Description:",
		api.HeaderRequestInfo, api.HeaderRequestInfo + `: {"acc":"_"}`, api.HeaderRequestInfo + `:{"acc":"_"}`,
	}
	rapid.Check(t, func(t *rapid.T) {
		block := "NATS/1.0\r\n" + strings.Join(rapid.SliceOfN(rapid.SampledFrom(pieces), 0, 40).Draw(t, "block"), "")
		block = block[:max(0, len(block)-2)] + serversLine // the server cuts without looking
		header, err := nats.DecodeHeadersMsg([]byte(block))
		if err != nil {
			header = nil
		}
		if info := info(header, len(block)); info != "" && info != `{"acc":"a"}` {
			t.Fatalf("%q names %s", block, info)
		}
	})
}

// Requests of well-behaved clients name their sender.
func TestWellFormedHeadersNameTheSender(t *testing.T) {
	s := natstest.Start(t)
	nc := s.Connect(t)
	heard, err := nc.SubscribeSync("x")
	require.NoError(t, err)
	header := nats.Header{api.HeaderRequestInfo: {"me"}}
	for i := range maxSenderHeaders {
		require.NoError(t, nc.PublishMsg(&nats.Msg{Subject: "x", Reply: "some.inbox", Header: header, Data: []byte("{}")}))
		m, err := heard.NextMsg(patience)
		require.NoError(t, err)
		require.Equal(t, "me", senderInfo(m), "%v", slices.Sorted(maps.Keys(header)))
		header["Header-"+strings.Repeat("x", i)] = []string{"value"}
	}
	require.NoError(t, nc.PublishMsg(&nats.Msg{Subject: "x", Header: header}))
	m, err := heard.NextMsg(patience)
	require.NoError(t, err)
	require.Empty(t, senderInfo(m), "more headers could hide the server's")
	require.NoError(t, nc.PublishMsg(&nats.Msg{Subject: "x"}))
	m, err = heard.NextMsg(patience)
	require.NoError(t, err)
	require.Empty(t, senderInfo(m))
}
