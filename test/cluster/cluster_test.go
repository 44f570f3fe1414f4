//go:build cluster

package cluster_test

import (
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/stretchr/testify/require"

	"github.com/tidegate/tidegate/pkg/api"
	tidegate "github.com/tidegate/tidegate/pkg/client"
)

// mostLost is how long after a node or a server hangs replies may be lost.
const mostLost = 3 * time.Second

func replaceAll(text, old, replacement string) string {
	return strings.ReplaceAll(text, old, replacement)
}

// tidegateOptions are the options with which docs/integrating.md tells callers to connect.
func tidegateOptions() []nats.Option {
	return []nats.Option{
		tidegate.InboxPrefix(api.DefaultNamespace), tidegate.LeaveHungServers(), nats.MaxReconnects(-1),
		nats.ErrorHandler(func(*nats.Conn, *nats.Subscription, error) {}),
	}
}

func TestTheCluster(t *testing.T) {
	w := newWorld(t)
	// The services start first, and wait; then the servers, which know no leader yet.
	for _, p := range w.services {
		p.start(t)
	}
	for _, p := range w.services {
		p.logged(t, `waiting until it answers`)
	}
	for _, p := range w.servers {
		p.start(t)
	}
	for _, p := range w.services {
		w.ready(t, p)
	}
	_, js := w.tester(t)
	w.whole(t, js)
	out, err := w.run(t, "limits", "set", "--nats", replaceAll(w.nats("default-admin", 0), password("default-admin"), password("ADMIN")), "--resource", resource, limit+"=100000000/day")
	require.NoError(t, err, "%s", out)
	c := newCrowd(t, w)
	begin := time.Now()
	time.Sleep(2 * time.Second)
	t.Logf("quiet: %v", c.lossSince(begin))
	for _, p := range append(w.admission()[:1:1], w.servers...) {
		begin := time.Now()
		p.hang(t)
		time.Sleep(5 * time.Second)
		l := c.lossSince(begin)
		t.Logf("%s hangs: %v", p.name, l)
		p.goOn(t)
		w.whole(t, js)
	}
	for _, p := range w.servers {
		begin := time.Now()
		p.kill(t)
		time.Sleep(2 * time.Second)
		t.Logf("%s is killed: %v", p.name, c.lossSince(begin))
		p.start(t)
		w.whole(t, js)
	}
	c.end()
}
