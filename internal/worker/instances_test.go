package worker_test

import (
	"context"
	"encoding/json"
	"log/slog"
	"testing"
	"time"

	"github.com/nats-io/nats.go/micro"
	"github.com/stretchr/testify/require"

	"github.com/tidegate/tidegate/internal/embednats/natstest"
	"github.com/tidegate/tidegate/internal/worker"
	"github.com/tidegate/tidegate/pkg/api"
	tidegate "github.com/tidegate/tidegate/pkg/client"
)

// Every process is on the list with what it says at that moment, until it leaves;
// services of others are not.
func TestWhoRunsIsOnTheList(t *testing.T) {
	s := natstest.Start(t)
	client, err := tidegate.New(s.Connect(t))
	require.NoError(t, err)
	list := func() []api.Service {
		t.Helper()
		all, err := client.Operator().Services(t.Context(), 500*time.Millisecond)
		require.NoError(t, err)
		return all
	}
	require.Empty(t, list())
	// A list may end early where a process is slow to answer.
	whole := func(count int) (all []api.Service) {
		t.Helper()
		require.Eventually(t, func() bool { all = list(); return len(all) == count }, time.Minute, time.Millisecond)
		return all
	}

	lag := 1.5
	join := func(service, version string, status api.ServiceStatus) (leave func()) {
		t.Helper()
		nc := s.Connect(t)
		leave, err := worker.Join(nc, worker.Instance{
			Service: service, Version: version, Description: "a test", Log: slog.New(slog.DiscardHandler),
			Status: func(ctx context.Context) api.ServiceStatus {
				_, bounded := ctx.Deadline()
				require.True(t, bounded)
				return status
			},
		})
		require.NoError(t, err)
		require.NoError(t, nc.Flush()) // the server knows what there is to ask
		return leave
	}
	join(api.ServiceRelay, "1.2.3", api.ServiceStatus{LagSeconds: &lag})
	leave := join(api.ServiceAggregator, "", api.ServiceStatus{Warning: "2 lanes fail"})
	for _, name := range []string{"somebody-else", api.ServicePrefix + "quiet"} {
		nc := s.Connect(t)
		_, err = micro.AddService(nc, micro.Config{Name: name, Version: "1.0.0"})
		require.NoError(t, err)
		require.NoError(t, nc.Flush())
	}

	all := whole(3)
	require.Equal(t, api.ServiceAggregator, all[0].Service)
	require.Equal(t, "0.0.0", all[0].Version)
	require.Equal(t, api.ServiceStatus{Warning: "2 lanes fail"}, all[0].ServiceStatus)
	require.Equal(t, "it says nothing of itself", all[1].Warning)
	require.Equal(t, api.ServiceRelay, all[2].Service)
	require.Equal(t, "1.2.3", all[2].Version)
	require.Equal(t, api.ServiceStatus{LagSeconds: &lag}, all[2].ServiceStatus)
	require.NotEmpty(t, all[2].ID)
	require.WithinDuration(t, time.Now(), time.UnixMilli(all[2].StartedMs), time.Minute)

	m, err := s.Connect(t).Request(api.StatusSubject(api.ServiceRelay), nil, time.Minute)
	require.NoError(t, err)
	var status api.ServiceStatus
	require.NoError(t, json.Unmarshal(m.Data, &status))
	require.Equal(t, api.ServiceStatus{LagSeconds: &lag}, status)

	leave()
	whole(2)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err = client.Operator().Services(ctx, time.Second)
	require.ErrorIs(t, err, context.Canceled)
}

func TestAnEntryThatCannotBe(t *testing.T) {
	for _, e := range []worker.Instance{{Service: "relay", Version: "yesterday's"}, {Service: "a relay"}} {
		_, err := worker.Join(natstest.Start(t).Connect(t), e)
		require.ErrorContains(t, err, "join the list of services")
	}
}
