package tidegate_test

import (
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/stretchr/testify/require"

	"github.com/tidegate/tidegate/internal/embednats/natstest"
	"github.com/tidegate/tidegate/pkg/api"
	tidegate "github.com/tidegate/tidegate/pkg/client"
)

func TestLeaveHungServersBoundsSilence(t *testing.T) {
	nc := natstest.Start(t).Connect(t, tidegate.LeaveHungServers())
	require.LessOrEqual(t, nc.Opts.PingInterval*time.Duration(nc.Opts.MaxPingsOut+1), 2*time.Second)
	require.LessOrEqual(t, nc.Opts.FlusherTimeout, 2*time.Second)
}

// Move waits for the replies of the server that it leaves, and requests wait for Move.
func TestMoveLosesNoReply(t *testing.T) {
	servers := natstest.StartCluster(t)
	node := servers[2].Connect(t)
	arrived, answer := make(chan struct{}, 16), make(chan struct{})
	_, err := node.Subscribe(api.SubjectAll, func(m *nats.Msg) {
		arrived <- struct{}{}
		go func() {
			<-answer
			_ = m.Respond([]byte(`{"allowed":true,"lease":"x","limits":[]}`))
		}()
	})
	require.NoError(t, err)
	_, err = node.Subscribe("probe", func(m *nats.Msg) { _ = m.Respond(nil) })
	require.NoError(t, err)
	require.NoError(t, node.Flush())
	for _, s := range servers[:2] { // which know of the node a moment later
		probe := s.Connect(t)
		require.Eventually(t, func() bool { _, err := probe.Request("probe", nil, time.Minute); return err == nil }, time.Minute, time.Millisecond)
	}
	urls := []string{servers[0].ClientURL(), servers[1].ClientURL()}
	nc, err := nats.Connect(urls[0]+","+urls[1], nats.DontRandomize(), nats.IgnoreDiscoveredServers(), nats.MaxReconnects(-1))
	require.NoError(t, err)
	t.Cleanup(nc.Close)
	client, err := tidegate.New(nc, tidegate.WithTimeout(time.Minute))
	require.NoError(t, err)
	var asked sync.WaitGroup
	ask := func() {
		asked.Go(func() {
			if _, err := client.Acquire(t.Context(), "e", "r", tidegate.Consume{"rpm": 1}); err != nil {
				t.Error(err)
			}
		})
	}
	ask()
	<-arrived
	moved := make(chan error)
	go func() { moved <- client.Move() }()
	ask()
	close(answer)
	require.NoError(t, <-moved)
	asked.Wait()
	require.Equal(t, urls[1], nc.ConnectedUrl())
}
