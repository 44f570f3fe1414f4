package leader_test

import (
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/require"

	"github.com/tidegate/tidegate/internal/embednats/natstest"
	"github.com/tidegate/tidegate/internal/leader"
)

// patience is how long tests wait for what must come.
const patience = time.Minute

// In a cluster every client sees the same term, whichever server it is connected to,
// and another once another server leads.
func TestATermInAClusterIsThatOfALeader(t *testing.T) {
	servers := natstest.StartCluster(t)
	a, b := servers[0].Connect(t), servers[1].Connect(t)
	js, err := jetstream.New(a)
	require.NoError(t, err)
	require.Eventually(t, func() bool {
		_, err := js.CreateOrUpdateStream(t.Context(), jetstream.StreamConfig{Name: "KEPT", Subjects: []string{"kept.>"}, Replicas: 3, AllowAtomicPublish: true})
		return err == nil
	}, patience, 100*time.Millisecond)
	term := func(nc *nats.Conn) (found leader.Term) {
		require.Eventually(t, func() bool {
			var err error
			found, err = leader.TermOf(t.Context(), nc, "KEPT")
			return err == nil && found.Leader != ""
		}, patience, 20*time.Millisecond)
		return found
	}
	first := term(a)
	require.Equal(t, first, term(b))
	require.Empty(t, first.Server)
	batch, err := leader.Publish(t.Context(), a, []*nats.Msg{message("kept.a", "1"), message("kept.b", "2")})
	require.NoError(t, err)

	_, err = a.RequestWithContext(t.Context(), "$JS.API.STREAM.LEADER.STEPDOWN.KEPT", nil)
	require.NoError(t, err)
	require.Eventually(t, func() bool { return term(b) != first }, patience, 20*time.Millisecond)
	require.Equal(t, term(a), term(b))
	m, err := leader.At(t.Context(), b, "KEPT", batch.Last)
	require.NoError(t, err)
	require.Equal(t, batch.ID, m.Batch(), "as it was under the leader before")
}
