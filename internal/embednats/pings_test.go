package embednats_test

import (
	"log/slog"
	"os"
	"path/filepath"
	"regexp"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/stretchr/testify/require"

	"github.com/tidegate/tidegate/internal/embednats"
	tidegate "github.com/tidegate/tidegate/pkg/client"
)

// hangTime is the time within which connections leave what hangs.
const hangTime = 3 * time.Second

// Servers of deploy/nats, the embedded server and clients notice as soon what hangs.
func TestPingsAreTheSameEverywhere(t *testing.T) {
	files, err := filepath.Glob(filepath.Join("..", "..", "deploy", "nats", "*.conf"))
	require.NoError(t, err)
	tenants, err := filepath.Glob(filepath.Join("..", "..", "deploy", "nats", "tenants", "*.conf"))
	require.NoError(t, err)
	for _, file := range append(files, tenants...) {
		text, err := os.ReadFile(file)
		require.NoError(t, err)
		for _, variable := range regexp.MustCompile(`\$(TIDEGATE_\w+)`).FindAllSubmatch(text, -1) {
			t.Setenv(string(variable[1]), "nats://x")
		}
	}
	single, err := server.ProcessConfigFile(filepath.Join("..", "..", "deploy", "nats", "nats-server.conf"))
	require.NoError(t, err)
	cluster, err := server.ProcessConfigFile(filepath.Join("..", "..", "deploy", "nats", "nats-server-cluster.conf"))
	require.NoError(t, err)
	client := nats.GetDefaultOptions()
	require.NoError(t, tidegate.LeaveHungServers()(&client))
	embedded, err := embednats.Start(t.Context(), embednats.Options{Dir: t.TempDir(), Listen: "127.0.0.1:0", Log: slog.New(slog.DiscardHandler)})
	require.NoError(t, err)
	t.Cleanup(embedded.Shutdown)

	type pings struct {
		interval, write time.Duration
		most            int
	}
	want := pings{client.PingInterval, client.FlusherTimeout, client.MaxPingsOut}
	require.Less(t, want.interval*time.Duration(want.most+2), hangTime, "a busy client is pinged an interval late")
	require.Equal(t, want, pings{single.PingInterval, single.WriteDeadline, single.MaxPingsOut})
	require.Equal(t, want, pings{cluster.PingInterval, cluster.WriteDeadline, cluster.MaxPingsOut})
	require.Equal(t, want, pings{cluster.Cluster.PingInterval, cluster.Cluster.WriteDeadline, cluster.Cluster.MaxPingsOut})
	interval, most, write := embedded.Pings()
	require.Equal(t, want, pings{interval, write, most})
	require.NotEmpty(t, cluster.Routes)
	require.True(t, cluster.Cluster.NoAdvertise)
}
