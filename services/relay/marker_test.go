package relay_test

import (
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/require"

	"github.com/tidegate/tidegate/engine"
	"github.com/tidegate/tidegate/engine/fault"
	"github.com/tidegate/tidegate/internal/embednats/natstest"
	"github.com/tidegate/tidegate/pkg/events"
)

// After a batch that failed, the relay knows nothing but the marker, and reads it
// again: whether the batch is in the feed or not, each change is there once in the
// end, and the relay goes on.
func TestAfterAFailedBatchTheMarkerIsReadAgain(t *testing.T) {
	for name, c := range map[string]struct {
		cut    natstest.Cut
		faster bool // another relay publishes in between
		fenced int
	}{
		"it did not arrive":        {cut: natstest.CutFirst},
		"its answer did not":       {cut: natstest.CutAfter},
		"another relay was faster": {faster: true, fenced: 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, engine.StreamOptions{}, fault.Options{})
			cuts := make(chan natstest.Cut, 1)
			way := natstest.CutsBy(func() natstest.Cut {
				select {
				case cut := <-cuts:
					return cut
				default:
					return natstest.NoCut
				}
			})
			p := w.start("a", impatient(), nats.SetCustomDialer(way))
			w.spendAll(1, 10)
			w.mustArrive()
			for n := range int64(3) {
				if c.faster {
					w.publishMarkerAgain(t)
				} else {
					cuts <- c.cut
				}
				w.spendAll(11+10*n, 20+10*n)
				w.mustArrive()
			}
			w.spendAll(41, 50)
			w.mustArrive()
			if !c.faster {
				require.EqualValues(t, 3, way.Count())
			}
			require.Equal(t, 3*c.fenced, p.metric(t, "tidegate_relay_fenced_total"))
		})
	}
}

// publishMarkerAgain publishes the last marker as another relay would that found
// nothing new behind it. The relay of the test has published all that there is.
func (w *world) publishMarkerAgain(t *testing.T) {
	t.Helper()
	js := w.jetstream()
	feed, err := js.Stream(t.Context(), events.StreamName)
	require.NoError(t, err)
	last, err := feed.GetLastMsgForSubject(t.Context(), events.CheckpointsAll)
	require.NoError(t, err)
	marker := nats.NewMsg(last.Subject)
	marker.Data = last.Data
	marker.Header.Set(jetstream.MsgRollup, jetstream.MsgRollupSubject)
	marker.Header.Set(jetstream.MsgTTLHeader, time.Hour.String())
	_, err = js.PublishMsg(t.Context(), marker)
	require.NoError(t, err)
}
