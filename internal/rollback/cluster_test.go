package rollback_test

import (
	"strconv"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/require"

	"github.com/tidegate/tidegate/internal/embednats/natstest"
	"github.com/tidegate/tidegate/internal/rollback"
	"github.com/tidegate/tidegate/internal/table/tabletest"
)

// Leaders that change lose nothing, and raise no alarm: nodes look, and go on.
func TestLeadersChange(t *testing.T) {
	servers := natstest.StartCluster(t)
	w := &world{t: t, nats: servers[0], store: tabletest.New(t)}
	js, err := jetstream.New(w.nats.Connect(t))
	require.NoError(t, err)
	require.Eventually(t, func() bool {
		_, err := rollback.OpenBucket(t.Context(), js, rollback.Bucket{Name: bucket, TTL: time.Hour, Replicas: 3})
		return err == nil
	}, patience, 100*time.Millisecond)
	a := w.start(fast())
	w.nats = servers[1]
	b := w.start(fast())
	<-a.Ready()
	<-b.Ready()
	for round := range 4 {
		for i, n := range []*node{a, b} {
			require.Eventually(t, func() bool { // there is no leader for a moment
				_, epoch, err := n.Write(t.Context(), strconv.Itoa(i)+"-"+strconv.Itoa(round)+"-"+time.Now().String()[20:29], nil, 0)
				return err == nil && epoch == 0
			}, patience, 10*time.Millisecond)
		}
		_, err := a.conn.RequestWithContext(t.Context(), "$JS.API.STREAM.LEADER.STEPDOWN.KV_"+bucket, nil)
		require.NoError(t, err)
	}
	require.Zero(t, a.certain(t))
	require.Zero(t, b.certain(t))
	require.Zero(t, a.alarms(t)+b.alarms(t))
}
