package roster_test

import (
	"context"
	"encoding/json"
	"log/slog"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/micro"
	"github.com/stretchr/testify/require"

	"github.com/tidegate/tidegate/internal/roster"
	"github.com/tidegate/tidegate/pkg/api"
	tidegate "github.com/tidegate/tidegate/pkg/client"
)

func connect(t *testing.T, s *server.Server) *nats.Conn {
	t.Helper()
	nc, err := nats.Connect(s.ClientURL())
	require.NoError(t, err)
	t.Cleanup(nc.Close)
	return nc
}

func startNATS(t *testing.T) *server.Server {
	t.Helper()
	s, err := server.NewServer(&server.Options{Host: "127.0.0.1", Port: server.RANDOM_PORT, NoLog: true, NoSigs: true})
	require.NoError(t, err)
	s.Start()
	t.Cleanup(func() { s.Shutdown(); s.WaitForShutdown() })
	require.True(t, s.ReadyForConnections(10*time.Second))
	return s
}

// Every process is on the list with what it says at that moment, until it leaves;
// services of others are not.
func TestWhoRunsIsOnTheList(t *testing.T) {
	s := startNATS(t)
	client, err := tidegate.New(connect(t, s))
	require.NoError(t, err)
	list := func() []api.Service {
		t.Helper()
		all, err := client.Operator().Services(t.Context(), 500*time.Millisecond)
		require.NoError(t, err)
		return all
	}
	require.Empty(t, list())

	lag := 1.5
	join := func(service, version string, status api.ServiceStatus) (leave func()) {
		t.Helper()
		leave, err := roster.Join(connect(t, s), roster.Entry{
			Service: service, Version: version, Description: "a test", Log: slog.New(slog.DiscardHandler),
			Status: func(ctx context.Context) api.ServiceStatus {
				_, bounded := ctx.Deadline()
				require.True(t, bounded)
				return status
			},
		})
		require.NoError(t, err)
		return leave
	}
	join(api.ServiceRelay, "1.2.3", api.ServiceStatus{LagSeconds: &lag})
	leave := join(api.ServiceAggregator, "", api.ServiceStatus{Warning: "2 lanes fail"})
	_, err = micro.AddService(connect(t, s), micro.Config{Name: "somebody-else", Version: "1.0.0"})
	require.NoError(t, err)
	_, err = micro.AddService(connect(t, s), micro.Config{Name: api.ServicePrefix + "quiet", Version: "1.0.0"})
	require.NoError(t, err)

	all := list()
	require.Len(t, all, 3)
	require.Equal(t, api.ServiceAggregator, all[0].Service)
	require.Equal(t, "0.0.0", all[0].Version)
	require.Equal(t, api.ServiceStatus{Warning: "2 lanes fail"}, all[0].ServiceStatus)
	require.Equal(t, "it says nothing of itself", all[1].Warning)
	require.Equal(t, api.ServiceRelay, all[2].Service)
	require.Equal(t, "1.2.3", all[2].Version)
	require.Equal(t, api.ServiceStatus{LagSeconds: &lag}, all[2].ServiceStatus)
	require.NotEmpty(t, all[2].ID)
	require.WithinDuration(t, time.Now(), time.UnixMilli(all[2].StartedMs), time.Minute)

	m, err := connect(t, s).Request(api.StatusSubject(api.ServiceRelay), nil, 5*time.Second)
	require.NoError(t, err)
	var status api.ServiceStatus
	require.NoError(t, json.Unmarshal(m.Data, &status))
	require.Equal(t, api.ServiceStatus{LagSeconds: &lag}, status)

	leave()
	require.Eventually(t, func() bool { return len(list()) == 2 }, 20*time.Second, time.Millisecond)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err = client.Operator().Services(ctx, time.Second)
	require.ErrorIs(t, err, context.Canceled)
}

func TestAnEntryThatCannotBe(t *testing.T) {
	for _, e := range []roster.Entry{{Service: "relay", Version: "yesterday's"}, {Service: "a relay"}} {
		_, err := roster.Join(connect(t, startNATS(t)), e)
		require.ErrorContains(t, err, "join the list of services")
	}
}
