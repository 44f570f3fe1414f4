//go:build cluster

package cluster_test

import (
	"encoding/json"
	"net/http"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/require"
)

const (
	// mostLost is how long after a node or a server hangs replies may be lost.
	mostLost = 3 * time.Second
	// hangTime is how long it hangs: longer than replies may be lost.
	hangTime = 3500 * time.Millisecond
	// quietTime is how long the callers are watched after a fault that is over at once.
	quietTime = time.Second
	// sentPerLost is the number of requests of a rolling restart of which one may be lost. A
	// NATS server drops a request that another server has routed to a subscription of a
	// queue group which ends before the request arrives: less than a millisecond for each
	// node that leaves, on a machine that is not busy.
	sentPerLost = 1000
)

// A cluster of three servers loses replies for less than 3 s to a node or a server that
// hangs or is killed, none to new leaders, and less than one in a thousand to rolling
// restarts. Usage is exact at the end.
func TestTheCluster(t *testing.T) {
	w := newWorld(t)
	began := time.Now()
	js := w.startAll(t)
	w.setLimit(t)
	t.Logf("%5.1f s: all services start before the servers", time.Since(began).Seconds())
	c := newCrowd(t, w)
	require.Zero(t, c.during(t, "nothing", func() { time.Sleep(quietTime) }).lost)

	for _, p := range append(w.admission()[:1:1], w.servers...) {
		hung := c.during(t, p.name+" hangs", func() {
			p.hang(t)
			time.Sleep(hangTime)
		})
		p.goOn(t)
		killed := c.during(t, p.name+" is killed", func() {
			p.kill(t)
			time.Sleep(quietTime)
		})
		p.start(t)
		for _, l := range []loss{hung, killed} {
			require.Less(t, l.until, mostLost)
			require.Less(t, l.lost, l.sent)
		}
		w.whole(t, js)
	}
	w.ready(t, w.admission()[0])

	none := c.during(t, "streams and servers get new leaders", func() { w.stepDown(t, js) })
	require.Zero(t, none.lost+none.releases)
	w.whole(t, js)
	few := c.during(t, "a rolling restart of the services", func() {
		for _, p := range w.services {
			p.stop(t)
			p.start(t)
			w.ready(t, p)
		}
	})
	require.LessOrEqual(t, few.lost*sentPerLost, few.sent)
	require.Zero(t, few.releases)
	few = c.during(t, "a rolling restart of the servers", func() {
		for i, p := range w.servers {
			w.retire(t, i)
			p.start(t)
			w.whole(t, js)
		}
	})
	require.LessOrEqual(t, few.lost*sentPerLost, few.sent)
	c.end()
	began = time.Now()
	w.mustBeCounted(t, c.sums)
	t.Logf("%5.1f s: usage is exact", time.Since(began).Seconds())
	for _, p := range w.services {
		p.stop(t)
	}
}

// startAll starts the services first, which wait, and then the servers, which know of no
// leader for a while.
func (w *world) startAll(t *testing.T) jetstream.JetStream {
	t.Helper()
	for _, p := range w.services {
		p.start(t)
	}
	for _, p := range w.services {
		p.logged(t, `waiting until it answers.*NATS`)
	}
	for _, p := range w.servers {
		p.start(t)
	}
	for _, p := range w.services {
		w.ready(t, p)
	}
	nc, err := nats.Connect(w.nats(tester, 0), nats.MaxReconnects(-1), nats.ReconnectWait(50*time.Millisecond),
		nats.LameDuckModeHandler(func(nc *nats.Conn) { _ = nc.ForceReconnect() }), // it fails if the test is over
		nats.ErrorHandler(func(*nats.Conn, *nats.Subscription, error) {}))
	require.NoError(t, err)
	t.Cleanup(nc.Close)
	js, err := jetstream.New(nc)
	require.NoError(t, err)
	w.whole(t, js)
	return js
}

func (w *world) setLimit(t *testing.T) {
	t.Helper()
	servers := strings.ReplaceAll(w.nats("default-admin", 0), password("default-admin"), password("ADMIN"))
	out, err := w.run(t, "limits", "set", "--nats", servers, "--resource", resource, limit+"=100000000/day")
	require.NoError(t, err, "%s", out)
}

// retire tells a server that it is to shut down, and ends it once its clients have left.
func (w *world) retire(t *testing.T, server int) {
	t.Helper()
	p := w.servers[server]
	p.signal(t, syscall.SIGUSR2) // nats-server --signal ldm
	require.Eventually(t, func() bool {
		var connections struct {
			Count int `json:"num_connections"`
		}
		reply, err := http.Get(w.monitors[server] + "/connz")
		if err != nil {
			return false
		}
		defer func() { _ = reply.Body.Close() }()
		return json.NewDecoder(reply.Body).Decode(&connections) == nil && connections.Count == 0
	}, patience, 20*time.Millisecond, "clients stay with %s", p.name)
	p.logged(t, "JetStream Shutdown")
	p.kill(t) // it would wait for its lame duck duration
}

// stepDown makes all streams elect new leaders.
func (w *world) stepDown(t *testing.T, js jetstream.JetStream) {
	t.Helper()
	names := js.StreamNames(t.Context())
	for name := range names.Name() {
		_, err := js.Conn().RequestWithContext(t.Context(), "$JS.API.STREAM.LEADER.STEPDOWN."+name, nil)
		require.NoError(t, err, name)
	}
	require.NoError(t, names.Err())
}
